import { AgentZipError, explain } from '../../errors.js';
import { close, O_CLOEXEC, O_RDONLY, open } from '../../native/files.js';
import { PAGE } from '../../native/libc.js';
import type { Engine } from '../engine.js';
import type { PagerOptions } from '../options.js';
import { NO_SWAP_TYPE } from '../protocol.js';
import { swapOff } from './swap-off.js';
import { swapOn, takenAway } from './swap-on.js';
import { MISSING_TIER, readTierFacts, tierObstacle } from './tier-choice.js';
import { adoptTier, createTier, type Tier, type TierName, type ZswapOptions } from './tier.js';
import { notedZram } from './zram-tier.js';
import { clearZswapRemains } from './zswap-tier.js';

/** What a change is made to. */
interface Served {
  options: PagerOptions;
  engine: Engine;
  /** The pager's own. */
  device: string;
  log: (line: string) => void;
}

/** What stands before the device after a change; `failure`: it is not the tier that was asked for, and why. */
export interface Changed {
  tier: Tier;
  swapType: number;
  failure: unknown;
}

/** AZ_ZSWAP_MISSING, AZ_ZRAM_MISSING when the kernel can not have the tier, as far as can be told before. */
export function checkTier(name: TierName): void {
  const reason = tierObstacle(name, readTierFacts());
  const code = MISSING_TIER[name];
  if (reason !== null && code !== null) throw new AgentZipError(code, { reason });
}

/** A device without users may go (a loop device does). Returns what lets go of it. */
export function hold(device: string): () => void {
  const fd = open(device, O_RDONLY | O_CLOEXEC);
  return () => close(fd);
}

/** Pages everything in, and takes away whatever stands before the device. */
export async function allIn(runtimeDir: string, device: string): Promise<void> {
  const zram = notedZram(runtimeDir);
  if (zram !== null) await takenAway(zram);
  await swapOff(device);
  clearZswapRemains(runtimeDir);
}

/**
 * Puts another tier before a device that is served: pages everything in, empties the store, and turns swap on anew. So no slot and no
 * claim outlives the tier that gave it its meaning: zram numbers blocks by itself, and a slot that zswap answers for may have what
 * somebody else wrote there before. Goes on with a change that a pager which died had begun, wherever that was.
 * ENOMEM of swapoff, and all is as it was before.
 */
export async function changeTier(
  served: Served,
  order: readonly TierName[],
  zswap: ZswapOptions | undefined,
): Promise<Changed> {
  const { options, engine, device, log } = served;
  const { runtimeDir } = options;
  await allIn(runtimeDir, device);
  await engine.request({ op: 'clear' });
  let failure: unknown = null;
  for (const name of order) {
    let tier: Tier | undefined;
    try {
      tier = await createTier(name, runtimeDir, device, engine.tables.slots * PAGE, zswap);
      return { tier, swapType: await swapOn(tier, engine.tables), failure };
    } catch (error) {
      failure ??= error;
      log(`tier ${name} can not be had: ${explain(error)}`);
      if (tier !== undefined) await takenAway(tier);
    }
  }
  return { tier: adoptTier('direct', runtimeDir, device), swapType: NO_SWAP_TYPE, failure };
}
