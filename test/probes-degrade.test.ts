import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { PhaseWatch } from '../src/telemetry/phase-watch.js';
import { Probes } from '../src/telemetry/probes.js';
import { probesMissing, Recorder } from './fixtures/toucher.js';
import { compileProbes } from './support/probes.js';

/** Does nothing, and says so. */
function expectIdle(probes: Probes): void {
  expect(probes.attached).toEqual([]);
  expect(probes.track(process.pid, 1)).toBe(false);
  probes.untrack(process.pid);
  expect(probes.tracked()).toEqual([]);
  expect(probes.pending).toBe(false);
  expect(probes.poll(new Recorder())).toBe(0);
  expect(probes.stats()).toMatchObject({ events: 0, dropped: 0 });
  probes.close();
}

describe('without what probes need', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'agentzip-probes-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const compiled = (name: string, from: string, to: string): string =>
    compileProbes(folder, name, [from, to]);

  it('no object: one warning with path and remedy', () => {
    const probes = Probes.load({ objectPath: join(folder, 'missing.o') });
    expect(probes.warnings).toHaveLength(1);
    expect(probes.warnings[0]).toMatch(/AZ_PROBE_FAILED: .*missing\.o.*npm run build:bpf/);
    expectIdle(probes);
  });

  it('another processor: one warning that names it and those it is for', () => {
    const probes = Probes.load({ architecture: 'riscv64' });
    expect(probes.warnings).toHaveLength(1);
    expect(probes.warnings[0]).toMatch(/AZ_PROBE_FAILED: .*not for riscv64.*\n?.*x64 or arm64/);
    expectIdle(probes);
  });

  it('no BTF: one warning that names the kernel option', () => {
    const probes = Probes.load({ btfPath: join(folder, 'vmlinux') });
    expect(probes.warnings).toHaveLength(1);
    expect(probes.warnings[0]).toMatch(/AZ_BTF_MISSING: .*CONFIG_DEBUG_INFO_BTF=y/);
    expectIdle(probes);
  });

  it.skipIf(probesMissing() !== null)('no libbpf: one warning that names the package', () => {
    const probes = Probes.load({ library: 'libbpf.so.99' });
    expect(probes.warnings).toHaveLength(1);
    expect(probes.warnings[0]).toMatch(/AZ_LIBRARY_MISSING: libbpf\.so\.99 .*apt-get install libbpf1/);
    expectIdle(probes);
  });

  it.skipIf(probesMissing() !== null)('a damaged object: one warning', () => {
    const damaged = join(folder, 'damaged.o');
    writeFileSync(damaged, 'not an ELF file');
    const probes = Probes.load({ objectPath: damaged });
    expect(probes.warnings).toHaveLength(1);
    expect(probes.warnings[0]).toMatch(/^AZ_PROBE_FAILED: .*damaged\.o could not be loaded/);
    expectIdle(probes);
  });

  it.skipIf(probesMissing() !== null)('a tracepoint this kernel lacks: that probe alone is missing', () => {
    const object = compiled('old', 'tp_btf/page_fault_user', 'tp_btf/page_fault_none');
    const probes = Probes.load({ objectPath: object });
    try {
      expect([...probes.attached].sort()).toEqual([
        'fault_kernel',
        'process_exec',
        'process_exit',
        'process_fork',
        'socket_arrived',
        'socket_closed',
        'socket_read',
        'socket_sent',
      ]);
      expect(probes.warnings).toHaveLength(1);
      expect(probes.warnings[0]).toMatch(
        /AZ_PROBE_FAILED: probe fault_user could not be loaded: .*tracepoint/,
      );
      expect(probes.track(process.pid, 1)).toBe(true);
      execFileSync('/bin/true', { timeout: 5000 });
      const seen = new Recorder();
      probes.poll(seen);
      expect(seen.others.map(([kind]) => kind)).toEqual(['fork', 'exec', 'exit']);
    } finally {
      probes.close();
    }
  });

  it.skipIf(probesMissing() !== null)(
    'the tracepoints of sockets: trampolines stand in, or one warning each says what is missing',
    () => {
      const probes = Probes.load({ objectPath: compiled('sockets', 'tp_btf/sock_', 'tp_btf/none_') });
      try {
        const stand = ['socket_sent_fexit', 'socket_read_fentry'];
        const standing = stand.filter((name) => probes.attached.includes(name));
        expect(probes.warnings).toHaveLength(stand.length - standing.length);
        for (const warning of probes.warnings) {
          expect(warning).toMatch(/AZ_PROBE_FAILED: probe socket_(sent|read) .*CONFIG_FUNCTION_TRACER=y/);
        }
        expect(probes.attached).toContain('socket_arrived');
        const watch = new PhaseWatch({
          ...{ probes, limits: DEFAULT_POLICY.detect, poll: () => {}, pids: () => [], onPhase: () => {} },
        });
        expect(watch.able).toBe(probes.attached.includes('socket_sent_fexit'));
      } finally {
        probes.close();
      }
    },
  );
});
