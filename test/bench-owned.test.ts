import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from 'vitest';
import { MemoryMeter } from '../src/bench/owned.js';

const MIB = 2 ** 20;

/** Touches memory on command, and tells when it has. Its child shares everything until it writes. */
const PROGRAM = `
import mmap, os, sys
def touch(bytes):
    area = mmap.mmap(-1, bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, bytes, 4096): area[at] = 1
    return area
shared = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
def say(word): print(word, flush=True)
say('ready')
sys.stdin.readline()
area = touch(48 << 20)
for at in range(0, 8 << 20, 4096): shared[at] = 1
say('touched')
sys.stdin.readline()
pid = os.fork()
if pid == 0:
    say('child %d' % os.getpid())
    sys.stdin.readline()
    for at in range(0, 16 << 20, 4096): area[at] = 2
    say('wrote')
    sys.stdin.readline()
    os._exit(0)
os.wait()
`;

describe('the memory meter', () => {
  let child: ChildProcess | undefined;
  afterEach(() => {
    child?.kill('SIGKILL');
  });

  const start = (): { pid: number; say(): Promise<string>; go(): void } => {
    const process = spawn('/usr/bin/python3', ['-c', PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] });
    child = process;
    const lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]();
    return {
      pid: process.pid ?? 0,
      say: async () => String((await lines.next()).value),
      go: () => void process.stdin.write('\n'),
    };
  };

  it('finds what a process touched within 1 %, and no shared page', async () => {
    const meter = new MemoryMeter();
    const { pid, say, go } = start();
    await say();
    const before = meter.measure([pid]);
    go();
    await say();
    const after = meter.measure([pid]);
    const grown = after.owned - before.owned;
    expect(Math.abs(grown - 48 * MIB)).toBeLessThan(0.01 * 48 * MIB);
    expect(after.swapped).toBe(before.swapped);
  });

  it('counts a page of a forked process once it is written, and for both then', async () => {
    const meter = new MemoryMeter();
    const { pid, say, go } = start();
    await say();
    go();
    await say();
    const alone = meter.measure([pid]).owned;
    go();
    const forked = Number((await say()).split(' ')[1]);
    expect(meter.measure([pid]).owned).toBeLessThan(alone - 47 * MIB);
    expect(meter.measure([forked]).owned).toBeLessThan(2 * MIB);
    go();
    await say();
    const owned = meter.measure([forked]).owned;
    expect(Math.abs(owned - 16 * MIB)).toBeLessThan(2 * MIB);
    expect(meter.measure([pid, forked]).owned).toBeGreaterThan(2 * 16 * MIB);
    process.kill(forked, 'SIGKILL');
  });

  it('counts nothing for a process that is gone', () => {
    expect(new MemoryMeter().measure([2 ** 22 + 1])).toEqual({ owned: 0, swapped: 0 });
  });
});
