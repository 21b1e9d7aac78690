import { ZramTier } from './zram-tier.js';

/** `pager.tier` of the policy: what pages that go out come to first. */
export type TierName = 'direct' | 'zram';

/** The device that is swap, which is the pager's own or stands before it. */
export interface Tier {
  readonly name: TierName;
  readonly device: string;
  /** Pages that are out and not on the pager's device. */
  ownPages(): number;
  /** Takes away what stands before the pager's device, after swapoff. */
  remove(): Promise<void>;
}

/** Nothing stands before it: a slot of swap is a slot of the store. */
const direct = (device: string): Tier => ({
  name: 'direct',
  device,
  ownPages: () => 0,
  remove: () => Promise.resolve(),
});

/** AZ_ZRAM_MISSING. */
export async function createTier(
  name: TierName,
  runtimeDir: string,
  device: string,
  bytes: number,
): Promise<Tier> {
  return name === 'zram' ? ZramTier.create(runtimeDir, device, bytes) : direct(device);
}

/** Of a pager that is gone; `device`: the one that is swap. */
export const adoptTier = (name: TierName, runtimeDir: string, device: string): Tier =>
  name === 'zram' ? ZramTier.adopt(runtimeDir, device) : direct(device);
