import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { PAGE } from '../../native/libc.js';
import { swapoff } from '../../native/system.js';
import { AgentZipError, explain } from '../../errors.js';
import { isSwap } from './swap-area.js';
import type { Tier } from './tier.js';

const CONTROL = '/sys/class/zram-control';
/** Of those that a kernel has, the one that answers fastest. */
const ALGORITHM = 'lz4';
const ATTEMPTS = 50;
const PAUSE_MS = 20;

/** Names the device to the next pager, should this one and its standby die. */
const noteOf = (runtimeDir: string): string => `${runtimeDir}/zram`;
const folderOf = (device: string): string => `/sys/block/${basename(device)}`;

/** AZ_ZRAM_MISSING, with what the kernel would not do. */
function attempt<T>(what: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new AgentZipError('AZ_ZRAM_MISSING', { reason: `${what}: ${explain(error)}` });
  }
}

/** Somebody who looks at new and changed block devices, like udev, may have it open for a moment. */
async function whenFree(step: () => void): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return step();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || attempt === ATTEMPTS) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

/** A zram device before ours: what goes out stays in it, compressed, until it is written back. */
export class ZramTier implements Tier {
  readonly name = 'zram';

  private constructor(
    readonly device: string,
    private readonly runtimeDir: string,
  ) {}

  /** Makes one with `backing` behind it. AZ_ZRAM_MISSING; nothing is left then. */
  static async create(runtimeDir: string, backing: string, bytes: number): Promise<ZramTier> {
    if (!existsSync(CONTROL)) spawnSync('modprobe', ['-q', 'zram', 'num_devices=0']);
    const index = attempt(`${CONTROL}/hot_add`, () => readFileSync(`${CONTROL}/hot_add`, 'utf8').trim());
    const tier = new ZramTier(`/dev/zram${index}`, runtimeDir);
    const folder = folderOf(tier.device);
    try {
      writeFileSync(noteOf(runtimeDir), tier.device);
      if (!existsSync(`${folder}/writeback`)) {
        const reason = 'the kernel has no writeback (CONFIG_ZRAM_WRITEBACK)';
        throw new AgentZipError('AZ_ZRAM_MISSING', { reason });
      }
      attempt('backing_dev', () => writeFileSync(`${folder}/backing_dev`, backing));
      if (readFileSync(`${folder}/comp_algorithm`, 'utf8').includes(ALGORITHM))
        attempt('comp_algorithm', () => writeFileSync(`${folder}/comp_algorithm`, ALGORITHM));
      // From 7.0 on: what is written back compressed has no likeness to anything.
      if (existsSync(`${folder}/compressed_writeback`))
        attempt('compressed_writeback', () => writeFileSync(`${folder}/compressed_writeback`, '0'));
      attempt('disksize', () => writeFileSync(`${folder}/disksize`, String(bytes)));
    } catch (error) {
      await tier.remove();
      throw error;
    }
    return tier;
  }

  /** The one of a pager that is gone. */
  static adopt(runtimeDir: string, device: string): ZramTier {
    return new ZramTier(device, runtimeDir);
  }

  /** It is swap itself, and holds pages since then. */
  begin(): void {}

  /** Pages that it holds itself. */
  ownPages(): number {
    const [original] = readFileSync(`${folderOf(this.device)}/mm_stat`, 'latin1')
      .trim()
      .split(/\s+/);
    return Math.ceil(Number(original) / PAGE);
  }

  async remove(): Promise<void> {
    const folder = folderOf(this.device);
    if (existsSync(folder)) {
      await whenFree(() => writeFileSync(`${folder}/reset`, '1')); // lets go of the device behind it
      const number = basename(this.device).replace('zram', '');
      await whenFree(() => writeFileSync(`${CONTROL}/hot_remove`, number));
    }
    rmSync(noteOf(this.runtimeDir), { force: true });
  }
}

/** The one that a pager here has made and not taken away, or null. */
export function notedZram(runtimeDir: string): ZramTier | null {
  const note = noteOf(runtimeDir);
  if (!existsSync(note)) return null;
  const tier = ZramTier.adopt(runtimeDir, readFileSync(note, 'utf8').trim());
  const backing = `${folderOf(tier.device)}/backing_dev`;
  // After the host was restarted the name may be somebody else's; one of ours always has a device behind it.
  if (existsSync(backing) && readFileSync(backing, 'utf8').trim() !== 'none') return tier;
  rmSync(note);
  return null;
}

/**
 * Takes away the device that a pager that died left, once that which is behind it fails: pages that were written back are
 * lost. Only for whoever holds the pager's lock. Returns what it removed.
 */
export async function clearZramRemains(runtimeDir: string): Promise<string[]> {
  const tier = notedZram(runtimeDir);
  if (tier === null) return [];
  const { device } = tier;
  const removed = [`device ${device}`];
  if (isSwap(device)) {
    await swapoff(device);
    removed.unshift(`swap ${device}`);
  }
  await tier.remove();
  return removed;
}
