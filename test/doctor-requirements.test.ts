import { describe, expect, it } from 'vitest';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { quickChecks, refuse, requireHost, runDoctor } from '../src/plugin/doctor.js';
import { kernel, memoryController } from '../src/plugin/doctor/kernel.js';
import { platforms } from '../src/plugin/doctor/platforms.js';
import { privileges } from '../src/plugin/doctor/privileges.js';
import { atLeast, type ReadText, type Requirement } from '../src/plugin/doctor/requirement.js';
import { swapAndReclaim } from '../src/plugin/doctor/swap.js';
import { doctorTable } from '../src/plugin/doctor/table.js';

const reader =
  (files: Record<string, string>): ReadText =>
  (path) =>
    files[path] ?? null;

const capabilities = (effective: string, uid = 0): Record<string, Requirement> => {
  const read = reader({ '/proc/self/status': `Name:\tnode\nCapEff:\t${effective}\n` });
  return Object.fromEntries(privileges(read, uid).map((requirement) => [requirement.id, requirement]));
};

describe('on this host', () => {
  it('every requirement is named once, with found, needed and remedy, and AgentZip can run', async () => {
    const report = await runDoctor();
    expect(new Set(report.requirements.map(({ id }) => id)).size).toBe(report.requirements.length);
    for (const { id, found, needed, remedy } of report.requirements) {
      expect(
        [found, needed, remedy].every((text) => text.length > 0),
        id,
      ).toBe(true);
    }
    const missing = report.requirements.filter(({ ok, level }) => !ok && level === 'required');
    expect(missing).toEqual([]);
    expect(report.ok).toBe(true);
    expect(() => requireHost(quickChecks(DEFAULT_POLICY.pager))).not.toThrow();
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
  });
});

describe('capabilities', () => {
  it('are read from the effective set', () => {
    // All of 41 but CAP_SYS_RESOURCE (24).
    const found = capabilities('000001fffeffffff');
    expect(found.CAP_SYS_RESOURCE).toMatchObject({ ok: false, level: 'optional', found: 'no' });
    for (const id of ['root', 'CAP_SYS_ADMIN', 'CAP_SYS_NICE', 'CAP_BPF'])
      expect(found[id].ok, id).toBe(true);
  });

  it('CAP_SYS_ADMIN does for the probes on kernels without CAP_BPF', () => {
    const found = capabilities((1n << 21n).toString(16));
    expect(found.CAP_BPF).toMatchObject({ ok: true, found: 'CAP_SYS_ADMIN instead' });
    expect(found.CAP_SYS_NICE).toMatchObject({ ok: false, level: 'required' });
  });

  it('that are missing stop the start with a code of their own', () => {
    const none = Object.values(capabilities('0', 1000));
    expect(() => requireHost(none)).toThrow(expect.objectContaining({ code: 'AZ_NOT_ROOT' }));
    expect(() => requireHost(none.slice(1))).toThrow(
      expect.objectContaining({
        code: 'AZ_CAPABILITY_MISSING',
        message: expect.stringContaining('CAP_SYS_ADMIN'),
      }),
    );
    expect(() => refuse({ requirements: none })).toThrow(
      expect.objectContaining({ code: 'AZ_DOCTOR', message: expect.stringMatching(/root .*CAP_SYS_NICE/) }),
    );
  });

  it('none can be read', () => {
    expect(
      privileges(() => null, 0)
        .filter(({ ok }) => ok)
        .map(({ id }) => id),
    ).toEqual(['root']);
  });
});

describe('pressure on memory', () => {
  const found = (files: Record<string, string>) =>
    kernel(reader(files), 'x64').find(({ id }) => id === 'memory pressure') as Requirement;

  it('is found where the kernel tells of it', () => {
    const text =
      'some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0';
    expect(found({ '/proc/pressure/memory': text })).toMatchObject({ ok: true, found: text.split('\n')[0] });
  });

  it('and else the remedy names the option and the boot parameter', () => {
    expect(found({})).toMatchObject({ ok: false, level: 'optional' });
    expect(found({}).remedy).toMatch(/CONFIG_PSI=y.*psi=1/);
  });
});

describe('the memory controller', () => {
  const mountinfo = (...lines: string[]): string =>
    lines.map((line, i) => `${30 + i} 1 0:2 / ${line}`).join('\n');

  it.each([
    [
      'v1 beside an empty v2',
      mountinfo(
        '/sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755',
        '/sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct',
        '/sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw',
        '/sys/fs/cgroup/memory rw shared:10 master:3 - cgroup cgroup rw,memory',
      ),
      { '/sys/fs/cgroup/unified/cgroup.controllers': '' },
      { version: 1, mount: '/sys/fs/cgroup/memory' },
    ],
    [
      'v2',
      mountinfo('/sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate'),
      { '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu io memory pids' },
      { version: 2, mount: '/sys/fs/cgroup' },
    ],
    ['none', mountinfo('/sys/fs/cgroup rw - tmpfs tmpfs rw'), {}, null],
  ])('%s', (_, text, files, expected) => {
    expect(memoryController(reader({ '/proc/self/mountinfo': text, ...files }))).toEqual(expected);
  });
});

describe('swap', () => {
  const swap = (files: Record<string, string>) =>
    swapAndReclaim(reader(files)).find(({ id }) => id === 'swap') as Requirement;
  const header = 'Filename\tType\tSize\tUsed\tPriority';
  const ours = {
    '/sys/block/loop3/loop/backing_file': '/run/agentzip/device/swap',
    '/proc/self/mountinfo': '55 20 0:44 / /run/agentzip/device rw,nosuid,nodev - fuse agentzip rw,user_id=0',
  };

  it('of others is named, our own is not', () => {
    expect(swap({ '/proc/swaps': header })).toMatchObject({ ok: true, found: 'none' });
    const both = `${header}\n/dev/loop3 partition 100 0 32767\n/dev/sda2 partition 100 0 -2`;
    expect(swap({ '/proc/swaps': both })).toMatchObject({ ok: false, found: '/dev/loop3, /dev/sda2' });
    expect(swap({ '/proc/swaps': both, ...ours })).toMatchObject({ ok: false, found: '/dev/sda2' });
    const alone = both.split('\n').slice(0, 2).join('\n');
    expect(swap({ '/proc/swaps': alone, ...ours })).toMatchObject({ ok: true, found: "AgentZip's alone" });
    const ublk = `${header}\n/dev/ublkb0 partition 100 0 32767\n/dev/ublkb1 partition 100 0 5`;
    expect(swap({ '/proc/swaps': ublk })).toMatchObject({ ok: false, found: '/dev/ublkb1' });
    const nbd = `${header}\n/dev/nbd0 partition 100 0 32767\n/dev/nbd1 partition 100 0 5`;
    const backends = {
      '/sys/block/nbd0/backend': 'agentzip:/run/agentzip\n',
      '/sys/block/nbd1/backend': 'x\n',
    };
    expect(swap({ '/proc/swaps': nbd, ...backends })).toMatchObject({ ok: false, found: '/dev/nbd1' });
  });
});

describe('versions', () => {
  it.each([
    ['6.18.44-fc-v782', '5.15', true],
    ['5.15.0', '5.15', true],
    ['5.4.0-200-generic', '5.15', false],
    ['20.19.0', '20.19', true],
    ['20.9.1', '20.19', false],
    ['22.1.0', '20.19', true],
    ['unknown', '5.15', false],
  ])('%s is at least %s: %s', (found, needed, expected) => {
    expect(atLeast(found, needed)).toBe(expected);
  });
});

describe('the table', () => {
  const requirement = { id: 'x', level: 'optional', ok: true, found: 'F', needed: 'N', remedy: 'R' } as const;

  it('shows what is needed and what to do only where something is missing', () => {
    const good = doctorTable({ ok: true, requirements: [requirement], platforms: [] });
    expect(good).toMatch(/ok +x +F/);
    expect(good).not.toMatch(/remedy/);
    expect(good).toMatch(/this host can run AgentZip$/m);
    const lacking = doctorTable({ ok: true, requirements: [{ ...requirement, ok: false }], platforms: [] });
    expect(lacking).toMatch(/missing +x +F\n +needed: N\n +remedy: R/);
    expect(lacking).toMatch(/optional and missing: 1/);
    const bad = doctorTable({
      ...{ ok: false, platforms: [] },
      requirements: [{ ...requirement, ok: false, level: 'required' }],
    });
    expect(bad).toMatch(/MISSING +x/);
    expect(bad).toMatch(/can not run AgentZip/);
  });
});

describe('platforms', () => {
  const seen = (paths: readonly string[], commands: readonly string[] = []) =>
    platforms({ exists: (path) => paths.includes(path), commands: () => new Set(commands) });

  it('are seen by what they leave on a host, with the adapter that would serve them', () => {
    expect(seen(['/run/docker.sock', '/run/containerd/containerd.sock'], ['kubelet'])).toEqual([
      { name: 'Docker', sign: '/run/docker.sock', adapter: 'docker' },
      { name: 'Kubernetes', sign: 'process kubelet', adapter: 'containerd' },
      { name: 'containerd', sign: '/run/containerd/containerd.sock', adapter: 'containerd' },
    ]);
    expect(seen(['/run/crio/crio.sock'])).toEqual([
      { name: 'CRI-O', sign: '/run/crio/crio.sock', adapter: null },
    ]);
    expect(seen([])).toEqual([]);
  });

  it('are in the table', () => {
    const table = (...given: Parameters<typeof seen>): string =>
      doctorTable({ ok: true, requirements: [], platforms: seen(...given) });
    expect(table(['/run/docker.sock'])).toMatch(
      /^ {2}Docker +\/run\/docker\.sock: agentzip run --hosts docker$/m,
    );
    expect(table(['/run/crio/crio.sock'])).toMatch(/^ {2}CRI-O .*: no adapter: register its sandboxes$/m);
    expect(table([])).toContain('platforms: none is seen');
  });
});
