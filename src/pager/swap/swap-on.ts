import type { Tables } from '../../store/tables.js';
import { activateSwap } from './swap-area.js';
import { withSwapPermitted } from './swap-cgroup.js';
import { swapOff } from './swap-off.js';
import { probeSwapType } from './swap-type.js';
import type { Tier } from './tier.js';

/**
 * Turns swap on over a tier, has it prove itself, and lets the tier begin. Returns the swap type. `held`: called as soon as swap
 * holds the device. What fails is to be {@link takenAway}.
 */
export async function swapOn(
  tier: Tier,
  { slots, slotObject }: Tables,
  held: () => void = () => {},
): Promise<number> {
  await activateSwap(tier.device, slots);
  held();
  const before = tier.ownPages(); // the header of the swap area
  const isStored = (slot: number): boolean => slotObject[slot] !== 0 || tier.ownPages() > before;
  const swapType = await probeSwapType(isStored, withSwapPermitted);
  tier.begin();
  return swapType;
}

/** Pages everything in, and takes away what stands before the device. */
export async function takenAway(tier: Tier): Promise<void> {
  await swapOff(tier.device);
  await tier.remove();
}
