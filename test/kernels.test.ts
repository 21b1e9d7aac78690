import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS, type KernelName } from './support/kernels.js';
import { compileProbes } from './support/probes.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

/** A guest without KVM, on a busy host. */
const GUEST_MS = 400_000;
const MIB = 4;

/** What is known of each. All have NBD, zram with writeback, cgroups of version 2 with memory.reclaim, BTF and trampolines. */
interface Known {
  release: RegExp;
  ublk: boolean;
  zswap: boolean;
  /** The tracepoints of sockets, of 6.3. */
  socketTracepoints: boolean;
  /** A standby takes over without a loss over fuse-loop too, from 6.9 on. */
  takeover: boolean;
  /** Every anonymous page has KSM's mark in /proc/kpageflags. */
  marksAll: boolean;
}
const later = { release: /^6\.12\./, ublk: true, socketTracepoints: true, takeover: true, marksAll: true };
const KNOWN: Readonly<Record<KernelName, Known>> = {
  '6.1': {
    release: /^6\.1\./,
    ublk: false,
    zswap: true,
    socketTracepoints: false,
    takeover: false,
    marksAll: false,
  },
  '6.12': { ...later, zswap: true },
  '6.12 for clouds': { ...later, zswap: false },
};

const PROCESSES = ['process_exec', 'process_exit', 'process_fork'];
const FAULTS = ['fault_kernel', 'fault_user'];
const TRACEPOINTS = ['socket_arrived', 'socket_read', 'socket_sent'];
const TRAMPOLINES = ['socket_arrived_fentry', 'socket_read_fentry', 'socket_sent_fexit'];
const KPROBES = ['socket_arrived_kprobe', 'socket_read_kprobe', 'socket_sent_kprobe'];
/** Page faults at 16 pages, a child that executes /bin/true, and a request and its answer. */
const SEEN = { forks: 1, execs: ['true'], exits: 1, faults: 16, sentBytes: 3000, arrivedBytes: 6, closed: 1 };

/** Of 64 pages, how many are their process's alone after it wrote them, forked, and wrote five again. */
const SOLE = { fresh: 64, forked: 0, written: 5 };

let folder: string;
/** By what the last thing is that they lack; each lacks what those before it do, but for the faults. */
let variants: Record<string, string | null>;
beforeAll(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-kernels-`);
  const sockets = [
    ['tp_btf/sock_', 'tp_btf/none_'],
    ['tp_btf/sk_data', 'tp_btf/none_data'],
  ] as const;
  const trampolines = [
    ['fexit/', 'fexit/none_'],
    ['fentry/', 'fentry/none_'],
  ] as const;
  const kprobes = ['kprobe/', 'kprobe/none_'] as const;
  variants = {
    nothing: null,
    sockets: compileProbes(folder, 'sockets', ...sockets),
    trampolines: compileProbes(folder, 'trampolines', ...sockets, ...trampolines),
    kprobes: compileProbes(folder, 'kprobes', ...sockets, ...trampolines, kprobes),
    faults: compileProbes(folder, 'faults', ['tp_btf/page_fault_', 'tp_btf/no_fault_']),
  };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Told {
  ok: boolean;
  level: string;
  found: string;
}

interface DoctorRun {
  facts: Record<string, boolean>;
  command: { status: number; ok: boolean; told: Record<string, Told> };
  /** With the policy set to it. */
  asked: Record<'ublk' | 'nbd' | 'zswap' | 'zram', Told>;
}

function expectDoctor({ facts, command, asked }: DoctorRun, known: Known): void {
  const { ublk, zswap, takeover } = known;
  expect(facts).toEqual({ ublk, nbd: true, zram: true, zswap, reclaim: true, btf: true });
  const { told } = command;
  expect(command).toMatchObject({ status: 0, ok: true });
  expect(told.kernel.found).toMatch(known.release);
  expect(told['front end'].found).toMatch(ublk ? /^ublk / : /^nbd \(no ublk: the kernel has no module/);
  expect(told['memory cgroup'].found).toBe('v2 at /sys/fs/cgroup');
  expect(told['tier zram']).toMatchObject({ ok: true, level: 'optional' });
  expect(told['tier zswap'].ok).toBe(zswap);
  expect(told.zswap.found).toBe(zswap ? 'off' : 'not built in');
  expect(told.takeover.ok).toBe(takeover);
  for (const id of ['BTF', 'probes', 'memory pressure', 'process_madvise'])
    expect(told[id], id).toMatchObject({ ok: true });
  const sockets = known.socketTracepoints ? TRACEPOINTS : TRAMPOLINES;
  expect(told.probes.found.split(', ').sort()).toEqual([...PROCESSES, ...sockets, 'socket_closed'].sort());

  expect(asked.nbd).toMatchObject({ ok: true, level: 'required' });
  expect(asked.ublk).toMatchObject({ ok: ublk, level: 'required' });
  expect(asked.zram).toMatchObject({ ok: true, level: 'required', found: 'can be had, and is set' });
  expect(asked.zswap).toMatchObject({ ok: zswap, level: 'required' });
  if (!zswap) expect(asked.zswap.found).toMatch(/CONFIG_ZSWAP/);
}

interface ProbesRun {
  attached: string[];
  warnings: string[];
  able: boolean;
  seen: typeof SEEN;
}

function expectProbes(runs: Record<string, ProbesRun>, { socketTracepoints }: Known): void {
  const { nothing, sockets, trampolines, kprobes, faults } = runs;
  const own = socketTracepoints ? TRACEPOINTS : TRAMPOLINES;
  const rest = [...PROCESSES, 'socket_closed'];
  expect(nothing).toMatchObject({ able: true, warnings: [], seen: SEEN });
  expect(nothing.attached).toEqual([...FAULTS, ...rest, ...own].sort());

  expect(sockets).toMatchObject({ able: true, warnings: [], seen: SEEN });
  expect(sockets.attached).toEqual([...FAULTS, ...rest, ...TRAMPOLINES].sort());

  expect(trampolines).toMatchObject({ able: true, warnings: [], seen: SEEN });
  expect(trampolines.attached).toEqual([...FAULTS, ...rest, ...KPROBES].sort());

  // Phases are not to be told any more; all else is.
  const silent = { ...SEEN, sentBytes: 0, arrivedBytes: 0, closed: 0 };
  expect(kprobes).toMatchObject({ able: false, seen: silent });
  expect(kprobes.attached).toEqual([...FAULTS, ...rest].sort());
  expect(kprobes.warnings).toHaveLength(TRACEPOINTS.length);
  for (const program of TRACEPOINTS)
    expect(kprobes.warnings.join('\n')).toMatch(new RegExp(`probe ${program} could not be loaded`));

  expect(faults).toMatchObject({ able: true, seen: { ...SEEN, faults: 0 } });
  expect(faults.attached).toEqual([...rest, ...own].sort());
  expect(faults.warnings).toHaveLength(FAULTS.length);
}

interface CgroupsRun {
  waits: { held: number; left: number; swapped: number }[];
  actuator: string;
  frontEnd: string;
  corruptPages: number;
}

function expectCgroups({ waits, actuator, frontEnd, corruptPages }: CgroupsRun, { ublk }: Known): void {
  expect({ actuator, frontEnd, corruptPages }).toEqual({
    ...{ actuator: 'process_madvise', frontEnd: ublk ? 'ublk' : 'nbd', corruptPages: 0 },
  });
  expect(waits).toHaveLength(2);
  for (const { held, left } of waits) expect(left).toBeLessThan(held - 0.8 * MIB * 2 ** 20);
}

// Else what differs from kernel to kernel, and the cgroups on the oldest.
const names = Object.keys(KERNELS) as KernelName[];
describe.each(names.filter((name) => LONG || name !== '6.12'))("Debian's %s", (name) => {
  const guest = prepareGuest(KERNELS[name]);
  const withCgroups = LONG || name === '6.1';

  test.skipIf(guest === null)(
    'is as the doctor says, takes the probes or what stands in for them, and what it has in cgroups is found and goes out',
    { timeout: GUEST_MS + 10_000 },
    async () => {
      const fixtures = `${process.execPath} ${packageRoot}/test/fixtures`;
      const script = [
        '/bin/busybox ip link set lo up',
        `${fixtures}/kernel-doctor.mjs`,
        `${fixtures}/kernel-pages.mjs`,
        `${fixtures}/kernel-probes.mjs '${JSON.stringify(variants)}'`,
        ...(withCgroups ? [`${fixtures}/kernel-cgroups.mjs '${JSON.stringify({ mib: MIB })}'`] : []),
      ].join(' && ');
      const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: GUEST_MS });
      expect(status, lines.join('\n')).toBe(0);
      const said = (key: string) =>
        JSON.parse(lines.find((line) => line.startsWith(`{"${key}"`)) ?? '{}') as Record<string, unknown>;
      expectDoctor(said('facts') as unknown as DoctorRun, KNOWN[name]);
      expect(said('pages').pages).toEqual({ ...SOLE, marksAll: KNOWN[name].marksAll });
      expectProbes(said('probes').probes as Record<string, ProbesRun>, KNOWN[name]);
      if (withCgroups) expectCgroups(said('cgroups').cgroups as CgroupsRun, KNOWN[name]);
    },
  );
});
