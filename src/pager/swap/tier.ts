import { ZramTier } from './zram-tier.js';
import { ZswapTier } from './zswap-tier.js';

/** `pager.tier` of the policy: what pages that go out come to first. */
export type TierName = 'direct' | 'zswap' | 'zram';

export interface ZswapOptions {
  /** The most memory that zswap may take, percent of the host's. */
  poolPercent: number;
}

/** The device that is swap, which is the pager's own or stands before it. */
export interface Tier {
  readonly name: TierName;
  readonly device: string;
  /** The device has proved itself: what stands before it may hold pages from now on. */
  begin(): void;
  /** Pages that are out and not on the pager's device. */
  ownPages(): number;
  /** Takes away what stands before the pager's device, after swapoff. */
  remove(): Promise<void>;
}

/** The kernel's own default. */
const DEFAULT_ZSWAP: ZswapOptions = { poolPercent: 20 };

/** Nothing stands before it: a slot of swap is a slot of the store. */
const direct = (device: string): Tier => ({
  name: 'direct',
  device,
  begin: () => {},
  ownPages: () => 0,
  remove: () => Promise.resolve(),
});

/** AZ_ZRAM_MISSING, AZ_ZSWAP_MISSING. */
export async function createTier(
  name: TierName,
  runtimeDir: string,
  device: string,
  bytes: number,
  zswap: ZswapOptions = DEFAULT_ZSWAP,
): Promise<Tier> {
  if (name === 'zswap') return ZswapTier.create(runtimeDir, device, zswap.poolPercent);
  return name === 'zram' ? ZramTier.create(runtimeDir, device, bytes) : direct(device);
}

/** Of a pager that is gone; `device`: the one that is swap. */
export function adoptTier(name: TierName, runtimeDir: string, device: string): Tier {
  if (name === 'zswap') return ZswapTier.adopt(runtimeDir, device);
  return name === 'zram' ? ZramTier.adopt(runtimeDir, device) : direct(device);
}
