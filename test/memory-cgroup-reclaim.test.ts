import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cgroupMemory, CgroupReclaim, hasReclaim } from '../src/memory/cgroup-reclaim.js';

const MIB = 2 ** 20;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentzip-reclaim-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A cgroup whose kernel swaps what it is asked for, but for `stays` bytes. */
class PlayedCgroup {
  readonly written: string[] = [];
  private out = 0;
  private file = 3 * MIB;

  constructor(
    private present: number,
    private readonly stays = 0,
    private readonly knows: RegExp = /^\d+ swappiness=max$/,
  ) {
    this.show();
  }

  /** Writes to memory.reclaim. */
  readonly put = async (path: string, text: string): Promise<void> => {
    expect(path).toBe(`${folder}/memory.reclaim`);
    this.written.push(text);
    if (!this.knows.test(text)) throw Object.assign(new Error('invalid'), { code: 'EINVAL' });
    const asked = Number(text.split(' ')[0]);
    const goes = Math.min(asked, Math.max(0, this.present - this.stays));
    this.present -= goes;
    this.out += goes;
    this.show();
    if (goes < asked) throw Object.assign(new Error('less went'), { code: 'EAGAIN' });
  };

  private show(): void {
    const anon = Math.min(this.present, MIB / 2);
    const shmem = this.present - anon;
    writeFileSync(
      join(folder, 'memory.stat'),
      `anon ${anon}\nfile ${shmem + this.file}\nshmem ${shmem}\nswapcached 0\n`,
    );
    writeFileSync(join(folder, 'memory.swap.current'), `${this.out}\n`);
    writeFileSync(join(folder, 'memory.current'), `${this.present + this.file}\n`);
  }
}

const options = { stepBytes: MIB / 4, cancelled: () => false };

test('a cgroup is asked in steps for anonymous and shared memory, until hardly anything is left', async () => {
  const played = new PlayedCgroup(8 * MIB);
  const result = await new CgroupReclaim(played.put).all(folder, options);
  expect(new Set(played.written)).toEqual(new Set([`${MIB / 4} swappiness=max`]));
  expect(result).toMatchObject({ bytes: 7.75 * MIB, steps: 31, leftBytes: MIB / 4 });
  expect(cgroupMemory(folder)).toEqual({ presentBytes: MIB / 4, outBytes: 7.75 * MIB });
});

test('it stops before the next step at the first token, and each step waits for its turn', async () => {
  const played = new PlayedCgroup(8 * MIB);
  let turns = 0;
  const turn = async (): Promise<void> => void turns++;
  const result = await new CgroupReclaim(played.put).all(folder, {
    ...options,
    turn,
    cancelled: () => turns > 5,
  });
  expect(turns).toBe(6);
  expect(played.written).toHaveLength(5);
  expect(result).toMatchObject({ bytes: 5 * options.stepBytes, steps: 5 });
});

test('it gives up when nothing goes any more', async () => {
  const played = new PlayedCgroup(8 * MIB, 6 * MIB);
  const { bytes, steps, leftBytes } = await new CgroupReclaim(played.put).all(folder, options);
  expect({ bytes, leftBytes }).toEqual({ bytes: 2 * MIB, leftBytes: 6 * MIB });
  expect(steps).toBeLessThan(8 + 10);
});

test.each([
  [/^\d+ swappiness=200$/, ' swappiness=200', 1],
  [/^\d+$/, '', 2],
])('a kernel that takes only %s is found out once', async (knows, form, refusals) => {
  const played = new PlayedCgroup(3 * MIB, 0, knows);
  const reclaim = new CgroupReclaim(played.put);
  expect(await reclaim.all(folder, options)).toMatchObject({ bytes: 2.75 * MIB, steps: 11 });
  expect(played.written).toHaveLength(11 + refusals);
  expect(played.written.at(-1)).toBe(`${MIB / 4}${form}`);
  // Nothing of it is asked again.
  const again = new PlayedCgroup(3 * MIB, 0, knows);
  Object.assign(reclaim, { put: again.put });
  await reclaim.all(folder, options);
  expect(again.written).toHaveLength(11);
});

test('what a kernel refuses altogether is an error, and a cgroup that is gone is not', async () => {
  const played = new PlayedCgroup(3 * MIB, 0, /^never$/);
  await expect(new CgroupReclaim(played.put).all(folder, options)).rejects.toMatchObject({
    code: 'AZ_RECLAIM',
  });
  const missing = join(folder, 'gone');
  expect(hasReclaim(missing)).toBe(false);
  expect(cgroupMemory(missing)).toBeNull();
  expect(await new CgroupReclaim().all(missing, options)).toMatchObject({ bytes: 0, steps: 0 });
});
