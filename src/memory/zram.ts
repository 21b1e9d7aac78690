import { readFileSync } from 'node:fs';
import { open, writeFile, type FileHandle } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../errors.js';

/** Another writeback or a recompression is under way (6.12 and later let one in at a time). */
const BUSY_ATTEMPTS = 200;
const BUSY_PAUSE_MS = 5;

export interface ZramStat {
  /** Pages that the device holds, wherever. */
  storedPages: number;
  /** Bytes of memory that it takes. */
  memoryBytes: number;
  /** Pages that are on the device behind it now. */
  writtenPages: number;
  /** Pages read from there and written to it, ever. */
  backingReads: number;
  backingWrites: number;
}

const numbers = (file: string): number[] => readFileSync(file, 'latin1').trim().split(/\s+/).map(Number);
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

/** A zram device with another behind it, by sysfs (Documentation/admin-guide/blockdev/zram.rst). */
export class Zram {
  private readonly folder: string;

  /** `device`: like /dev/zram0. */
  constructor(device: string) {
    this.folder = `/sys/block/${basename(device)}`;
  }

  stat(): ZramStat {
    const [originalBytes, , memoryBytes] = numbers(`${this.folder}/mm_stat`);
    const [writtenPages, backingReads, backingWrites] = numbers(`${this.folder}/bd_stat`);
    return { storedPages: originalBytes / 4096, memoryBytes, writtenPages, backingReads, backingWrites };
  }

  /** Lets no more than so many pages be written back from now on. */
  async limit(pages: number): Promise<void> {
    await writeFile(`${this.folder}/writeback_limit`, String(pages));
    await writeFile(`${this.folder}/writeback_limit_enable`, '1');
  }

  /**
   * Writes the pages of these swap slots back, one by one; what is not there, is there already, or is one word repeated, stays as
   * it is. Stops when `cancelled` says so, and at the limit. Returns how many were written. AZ_ZRAM_WRITEBACK.
   * `answered`: told of each slot once what was written for it has been: one slot a command, for within one the kernel chooses
   * the order (from 6.12 on), and has several under way (7.0).
   */
  async writeBack(
    slots: Iterable<number>,
    cancelled: () => boolean,
    answered: (slot: number) => void = () => {},
  ): Promise<number> {
    const before = this.stat().backingWrites;
    const file = await open(`${this.folder}/writeback`, 'w');
    try {
      for (const slot of slots) {
        if (cancelled() || !(await this.command(file, `page_index=${slot}`))) break;
        answered(slot);
      }
    } finally {
      await file.close();
    }
    return this.stat().backingWrites - before;
  }

  /** Marks all that it holds as idle, and writes what nobody has touched since back. For kernels without page_index. */
  async writeBackIdle(settleMs: number, cancelled: () => boolean): Promise<number> {
    const before = this.stat().backingWrites;
    await writeFile(`${this.folder}/idle`, 'all');
    await sleep(settleMs);
    const file = await open(`${this.folder}/writeback`, 'w');
    try {
      if (!cancelled()) await this.command(file, 'idle');
    } finally {
      await file.close();
    }
    return this.stat().backingWrites - before;
  }

  /** False: the limit is reached, or the device behind is full. */
  private async command(file: FileHandle, command: string): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      try {
        await file.write(command, 0);
        return true;
      } catch (error) {
        const code = codeOf(error);
        if (code === 'ENOSPC' || (code === 'EIO' && this.isSpent())) return false;
        if (code !== 'EAGAIN' || attempt === BUSY_ATTEMPTS) throw this.refusal(command, code);
        await sleep(BUSY_PAUSE_MS);
      }
    }
  }

  private isSpent(): boolean {
    const [enabled] = numbers(`${this.folder}/writeback_limit_enable`);
    const [left] = numbers(`${this.folder}/writeback_limit`);
    return enabled === 1 && left === 0;
  }

  private refusal(command: string, code: string): AgentZipError {
    return new AgentZipError('AZ_ZRAM_WRITEBACK', { device: basename(this.folder), command, reason: code });
  }
}
