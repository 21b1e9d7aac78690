import { constants, existsSync, readFileSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../errors.js';
import { timeHelpers, type CpuTime } from './helper-cpu.js';

/** Less than that is not worth a step: what an idle process touches all the time. */
const LEAST_BYTES = 256 << 10;
/** Steps in a row that may free nothing, and the pause after each: what is being written is freed once it has been. */
const IDLE_STEPS = 8;
const IDLE_MS = 25;
/** Steps for each that it would take if all that was asked for went: what is touched meanwhile comes back. */
const PATIENCE = 4;
/**
 * Asks for anonymous and shared memory alone, and for no file's pages: `max` is of Linux 6.16, 200 of 6.11 and nearly that;
 * before, file pages of the cgroup go as well. What a kernel does not know it refuses with EINVAL.
 */
const SWAPPINESS = [' swappiness=max', ' swappiness=200', ''];

/** Memory of a cgroup of version 2 that could be swapped, bytes: there, and out. */
export interface CgroupMemory {
  presentBytes: number;
  outBytes: number;
}

const FIELD = /^(anon|shmem|swapcached) (\d+)$/gm;

/** Null: it is gone, or has no memory controller. `swapcached` counts what was written and is not freed yet. */
export function cgroupMemory(folder: string): CgroupMemory | null {
  try {
    const stat = readFileSync(`${folder}/memory.stat`, 'latin1');
    let presentBytes = 0;
    for (const [, , bytes] of stat.matchAll(FIELD)) presentBytes += Number(bytes);
    return { presentBytes, outBytes: Number(readFileSync(`${folder}/memory.swap.current`, 'latin1')) };
  } catch {
    return null;
  }
}

export const hasReclaim = (folder: string): boolean => existsSync(`${folder}/memory.reclaim`);

export interface ReclaimOptions {
  /** Most bytes a write asks for: it does not return before they went, or could not. */
  stepBytes: number;
  /** Asked before every step; true stops there. */
  cancelled: () => boolean;
  /** Awaited before every step, so that more urgent work goes first. */
  turn?: () => Promise<void>;
}

export interface ReclaimResult extends CpuTime {
  /** By which what is out grew. */
  bytes: number;
  steps: number;
  /** What could still go. */
  leftBytes: number;
}

/** Sends memory of cgroups out by their `memory.reclaim`, in steps. What it takes no page table has to name. */
export class CgroupReclaim {
  /** Which of SWAPPINESS this kernel takes, as far as is known. */
  private swappiness = 0;

  /** `put`: writes a text to a file of a cgroup, or rejects as the kernel does. */
  constructor(private readonly put: (path: string, text: string) => Promise<void> = write) {}

  /**
   * Until hardly anything is left, nothing goes any more, or it is cancelled. The counters of pages in the kernel are exact
   * where memory.stat may lag, so that these say whether a step did anything. AZ_RECLAIM when the kernel refuses it.
   */
  async all(folder: string, { stepBytes, cancelled, turn }: ReclaimOptions): Promise<ReclaimResult> {
    const result: ReclaimResult = { bytes: 0, steps: 0, leftBytes: 0, cpuMs: 0 };
    const before = cgroupMemory(folder);
    if (before === null) return result;
    const most = PATIENCE * Math.ceil(before.presentBytes / stepBytes) + IDLE_STEPS;
    let [least, mostOut, now] = [await this.held(folder), before.outBytes, before];
    for (let idle = 0; idle < IDLE_STEPS && result.steps < most && now.presentBytes > LEAST_BYTES;) {
      await turn?.();
      if (cancelled()) break;
      result.steps++;
      await timeHelpers(result, () => this.step(folder, Math.min(stepBytes, now.presentBytes)));
      const [held, after] = [await this.held(folder), cgroupMemory(folder)];
      if (after === null) break;
      now = after;
      idle = held < least || now.outBytes > mostOut ? 0 : idle + 1;
      [least, mostOut] = [Math.min(held, least), Math.max(now.outBytes, mostOut)];
      if (idle > 0) await sleep(IDLE_MS);
    }
    result.bytes = Math.max(0, now.outBytes - before.outBytes);
    result.leftBytes = now.presentBytes;
    return result;
  }

  /** In memory, bytes. */
  private async held(folder: string): Promise<number> {
    return Number(await readFile(`${folder}/memory.current`, 'latin1').catch(() => '0'));
  }

  private async step(folder: string, bytes: number): Promise<void> {
    for (;;) {
      try {
        return await this.put(`${folder}/memory.reclaim`, `${bytes}${SWAPPINESS[this.swappiness]}`);
      } catch (error) {
        const { code = '' } = error as NodeJS.ErrnoException;
        // Less went than was asked for, or the sandbox has ended.
        if (['EAGAIN', 'EINTR', 'ENOENT', 'ENODEV'].includes(code)) return;
        if (code !== 'EINVAL' || this.swappiness === SWAPPINESS.length - 1)
          throw new AgentZipError('AZ_RECLAIM', { cgroup: folder, reason: code }, { cause: error });
        this.swappiness++;
      }
    }
  }
}

/** Not with writeFile, which creates what is not there: the cgroup may be gone. */
async function write(path: string, text: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY);
  try {
    await file.write(text);
  } finally {
    await file.close();
  }
}
