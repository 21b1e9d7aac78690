import { Zram } from './zram.js';
import { zswapStat } from './zswap.js';

/** What the kernel keeps of pages that are out, before they come to the pager's device. */
export interface TierUse {
  /** Memory that it takes. */
  warmBytes: number;
  warmPages: number;
}

/** `device`: the one that is swap. */
export function tierUse(tier: 'direct' | 'zswap' | 'zram', device: string): TierUse {
  if (tier === 'direct') return { warmBytes: 0, warmPages: 0 };
  if (tier === 'zswap') {
    const { poolBytes, pages } = zswapStat();
    return { warmBytes: poolBytes, warmPages: pages };
  }
  const { memoryBytes, storedPages, writtenPages } = new Zram(device).stat();
  return { warmBytes: memoryBytes, warmPages: Math.max(0, storedPages - writtenPages) };
}
