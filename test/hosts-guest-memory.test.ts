import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { guestMemory, judge, type GuestMemory } from '../src/hosts/guest-memory.js';
import { HostLayout } from './support/host-layout.js';

const OWN = `55d0c0000000-55d0c8000000 rw-p 00000000 00:00 0                          [heap]
Size:             131072 kB
KernelPageSize:        4 kB
VmFlags: rd wr mr mw me ac sd
7fa100000000-7fa101000000 r-xp 00000000 fe:01 77                         /firecracker
Size:              16384 kB
KernelPageSize:        4 kB
VmFlags: rd ex mr mw me sd
`;

/** One mapping of guest memory among those of the monitor itself. */
function smaps(header: string, pageKiB: number, flags: string): string {
  const text = `7f0000000000-7f0020000000 ${header}
Size:             524288 kB
KernelPageSize:    ${pageKiB} kB
MMUPageSize:       ${pageKiB} kB
Rss:                   0 kB
THPeligible:           0
VmFlags: ${flags}
`;
  return OWN + text;
}

const ANY = { loseSwapped: false, prePause: false };
const FLAGS = 'rd wr mr mw me ac sd';

test.each<[what: string, smaps: string, kind: GuestMemory['kind'], hazards: string[], mode: string]>([
  [
    'E2B since Firecracker 1.14',
    smaps('rw-s 00000000 00:0f 9 /memfd:guest_mem (deleted)', 2048, 'rd wr sh mr mw me ms ht um uw sd'),
    'memfd',
    ['hugetlb', 'userfaultfd', 'shared_memfd'],
    'observe',
  ],
  [
    'E2B before it',
    smaps('rw-p 00000000 00:0f 9 /anon_hugepage (deleted)', 2048, 'rd wr mr mw me ht um sd'),
    'private',
    ['hugetlb', 'userfaultfd'],
    'observe',
  ],
  [
    'huge pages that only their size shows',
    smaps('rw-p 00000000 00:00 0 ', 2048, FLAGS),
    'private',
    ['hugetlb'],
    'observe',
  ],
  [
    'a memfd of small pages',
    smaps('rw-s 00000000 00:01 9 /memfd:guest_mem (deleted)', 4, FLAGS),
    'memfd',
    ['shared_memfd'],
    'observe',
  ],
  [
    'gVisor',
    smaps('rw-s 00000000 00:01 9 /memfd:runsc-memory (deleted)', 4, FLAGS),
    'memfd',
    ['shared_memfd'],
    'observe',
  ],
  [
    'faults that a handler answers',
    smaps('rw-p 00000000 00:00 0 ', 4, 'rd wr mr mw me um sd'),
    'private',
    ['userfaultfd'],
    'observe',
  ],
  [
    'write protection of a handler',
    smaps('rw-p 00000000 00:00 0 ', 4, 'rd wr mr mw me uw sd'),
    'private',
    ['userfaultfd'],
    'observe',
  ],
  [
    'minor faults of a handler',
    smaps('rw-p 00000000 00:00 0 ', 4, 'rd wr mr mw me ui sd'),
    'private',
    ['userfaultfd'],
    'observe',
  ],
  [
    'locked memory',
    smaps('rw-p 00000000 00:00 0 ', 4, 'rd wr mr mw me lo sd'),
    'private',
    ['locked'],
    'observe',
  ],
  [
    'memory of a device',
    smaps('rw-p 00000000 00:00 0 ', 4, 'rd wr mr mw me pf io sd'),
    'private',
    ['locked'],
    'observe',
  ],
  [
    'a restored snapshot',
    smaps('rw-p 00000000 fe:01 4711 /snapshots/base.mem', 4, FLAGS),
    'memory_file',
    [],
    'reclaim',
  ],
  ['a machine that was booted', smaps('rw-p 00000000 00:00 0 ', 4, FLAGS), 'private', [], 'reclaim'],
])('%s', (_what, text, kind, hazards, mode) => {
  const memory = guestMemory(text);
  expect(memory).toMatchObject({ kind, hazards, bytes: 512 << 20 });
  const verdict = judge(memory, ANY);
  expect(verdict).toMatchObject({ mode, hazards });
  expect(verdict.why).not.toBe('');
});

test('one mapping that may not be touched is enough', () => {
  const second = smaps('rw-p 00000000 00:00 0 ', 4, 'rd wr mr mw me lo sd').replace(/7f00/g, '7e00');
  const memory = guestMemory(smaps('rw-p 00000000 00:00 0 ', 4, FLAGS) + second);
  expect(memory).toMatchObject({ bytes: 1024 << 20, hazards: ['locked'] });
});

test('a monitor that has not loaded its guest has no guest memory, and is observed', () => {
  expect(guestMemory(OWN)).toBeNull();
  expect(judge(null, { loseSwapped: false, prePause: true })).toMatchObject({ mode: 'observe' });
});

test('snapshots that lose swapped pages forbid, unless the platform asks for pre-pause; hazards win over that too', () => {
  const plain = guestMemory(smaps('rw-p 00000000 fe:01 4711 /base.mem', 4, FLAGS));
  expect(judge(plain, { loseSwapped: true, prePause: false })).toMatchObject({
    mode: 'observe',
    hazards: ['swap_loses_snapshot'],
    why: expect.stringContaining('pre-pause'),
  });
  expect(judge(plain, { loseSwapped: true, prePause: true })).toMatchObject({
    mode: 'reclaim',
    hazards: ['swap_loses_snapshot'],
  });
  const huge = guestMemory(smaps('rw-p 00000000 00:00 0 ', 2048, 'rd wr ht sd'));
  expect(judge(huge, { loseSwapped: true, prePause: true })).toMatchObject({
    mode: 'observe',
    hazards: ['hugetlb'],
  });
});

let layout: HostLayout | undefined;
afterEach(() => layout?.stop());

test('mappings of a real process are told apart', async () => {
  layout = new HostLayout();
  const file = layout.file('base.mem', new Uint8Array(32 << 20));
  const monitor = await layout.start('firecracker', []);
  const look = () => guestMemory(readFileSync(`/proc/${monitor.pid}/smaps`, 'utf8'));
  expect(look()).toBeNull();
  await monitor.ask(`map_private('${file}', 0, 8192)`);
  expect(look()).toMatchObject({ kind: 'memory_file', bytes: 32 << 20, hazards: [], file: { path: file } });
  const address = await monitor.ask('map_anonymous(8192)');
  expect(look()).toMatchObject({ bytes: 64 << 20, hazards: [] });
  expect(await monitor.ask(`lock(${address}, 8192)`)).toBe('0');
  expect(look()).toMatchObject({ hazards: ['locked'] });
  await monitor.ask("map_memfd('guest_mem', 256)");
  expect(look()).toMatchObject({ hazards: expect.arrayContaining(['locked', 'shared_memfd']) });
});
