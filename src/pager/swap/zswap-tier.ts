import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { AgentZipError, explain } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { compareRelease } from '../../native/kernel-version.js';
import { readTierFacts, tierObstacle, ZSWAP_PARAMETERS } from './tier-choice.js';
import type { Tier } from './tier.js';

/** Best first; the kernel takes those it has as a crypto algorithm. */
const COMPRESSORS = ['lz4', 'lzo-rle', 'lzo', 'zstd'];
/** Allocators that can write back, best first: zsmalloc can from 6.3 on. Linux 6.18 has no other, and no parameter. */
const ALLOCATORS = ['zsmalloc', 'zbud'];
const ZSMALLOC_WRITES_BACK = '6.3';
/** Below so much of the most that the pool may take, one that was full takes pages again; the kernel's own default. */
export const ACCEPT_PERCENT = 90;

/** Which values zswap had before us, for whoever puts them back. */
const noteOf = (runtimeDir: string): string => `${runtimeDir}/zswap`;
const pathOf = (name: string): string => `${ZSWAP_PARAMETERS}/${name}`;
const get = (name: string): string => readFileSync(pathOf(name), 'latin1').trim();
const has = (name: string): boolean => existsSync(pathOf(name));

const refusal = (reason: string): AgentZipError => new AgentZipError('AZ_ZSWAP_MISSING', { reason });

/** Writes a parameter and reads it back: some are refused by the kernel's log alone. AZ_ZSWAP_MISSING. */
function set(name: string, value: string): void {
  if (get(name) === value) return;
  try {
    writeFileSync(pathOf(name), value);
  } catch (error) {
    throw refusal(`${name} ${value}: ${explain(error)}`);
  }
  if (get(name) !== value) throw refusal(`${name} stays ${get(name)}; see the kernel log`);
}

/** The first of these that the kernel takes. */
function setFirst(name: string, values: readonly string[]): void {
  for (const value of values) {
    try {
      return set(name, value);
    } catch (error) {
      if (value === values.at(-1)) throw error;
    }
  }
}

function restore(before: Record<string, string>): void {
  // Off first, and on last: nothing is stored by halves of two settings.
  const order = Object.entries(before).sort(([a], [b]) => Number(a === 'enabled') - Number(b === 'enabled'));
  if (before.enabled === 'N') order.unshift(['enabled', 'N']);
  for (const [name, value] of order) if (has(name)) set(name, value);
}

/** zswap before our device: the same slots of the same swap, which it answers for while it holds them. */
export class ZswapTier implements Tier {
  readonly name = 'zswap';

  private constructor(
    readonly device: string,
    private readonly runtimeDir: string,
  ) {}

  /** Prepares zswap, and leaves it off: the device has to prove itself first. AZ_ZSWAP_MISSING; nothing is changed then. */
  static create(runtimeDir: string, device: string, poolPercent: number): ZswapTier {
    const facts = readTierFacts();
    const obstacle = tierObstacle('zswap', facts);
    if (obstacle !== null) throw refusal(obstacle);
    const names = ['enabled', 'compressor', 'zpool', 'max_pool_percent'].concat(
      ...['accept_threshold_percent', 'shrinker_enabled'],
    );
    const before = Object.fromEntries(names.filter(has).map((name) => [name, get(name)]));
    writeFileSync(noteOf(runtimeDir), JSON.stringify(before));
    const tier = new ZswapTier(device, runtimeDir);
    try {
      setFirst('compressor', COMPRESSORS);
      const writesBack = compareRelease(facts.release, ZSMALLOC_WRITES_BACK) >= 0;
      if (has('zpool')) setFirst('zpool', writesBack ? ALLOCATORS : ALLOCATORS.slice(1));
      set('max_pool_percent', String(poolPercent));
      set('accept_threshold_percent', String(ACCEPT_PERCENT));
      // Short of memory the kernel writes back by itself, the oldest first.
      if (has('shrinker_enabled')) set('shrinker_enabled', 'Y');
      // Once on: before 6.12 swap that is turned on earlier than that is never zswap's.
      set('enabled', 'Y');
      set('enabled', 'N');
    } catch (error) {
      restore(before);
      rmSync(noteOf(runtimeDir), { force: true });
      throw error;
    }
    return tier;
  }

  /** The one of a pager that is gone. */
  static adopt(runtimeDir: string, device: string): ZswapTier {
    return new ZswapTier(device, runtimeDir);
  }

  /** From now on pages that go out stay in it. */
  begin(): void {
    set('enabled', 'Y');
  }

  /** Pages that it holds, of whatever swap. */
  ownPages(): number {
    const kib = /^Zswapped: +(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'latin1'))?.[1];
    return Math.ceil((Number(kib ?? '0') * 1024) / PAGE);
  }

  async remove(): Promise<void> {
    clearZswapRemains(this.runtimeDir);
  }
}

/** Puts zswap back to what it was before a pager that is gone or going. Returns what it did. */
export function clearZswapRemains(runtimeDir: string): string[] {
  const note = noteOf(runtimeDir);
  if (!existsSync(note)) return [];
  // After the host was restarted there is nothing to be put back; to do so all the same changes nothing but what we would.
  restore(JSON.parse(readFileSync(note, 'utf8')) as Record<string, string>);
  rmSync(note);
  return ['settings of zswap'];
}
