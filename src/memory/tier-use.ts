import { Zram } from './zram.js';
import { zswapStat } from './zswap.js';

/** What the kernel keeps of pages that are out, before they come to the pager's device. */
export interface TierUse {
  /** Memory that it takes. */
  warmBytes: number;
  warmPages: number;
}

const NOTHING: TierUse = { warmBytes: 0, warmPages: 0 };

/** `device`: the one that is swap; nothing is kept before one that is gone, for the tier is being changed. */
export function tierUse(tier: 'direct' | 'zswap' | 'zram', device: string): TierUse {
  if (tier === 'direct') return NOTHING;
  if (tier === 'zswap') {
    const { poolBytes, pages } = zswapStat();
    return { warmBytes: poolBytes, warmPages: pages };
  }
  try {
    const { memoryBytes, storedPages, writtenPages } = new Zram(device).stat();
    return { warmBytes: memoryBytes, warmPages: Math.max(0, storedPages - writtenPages) };
  } catch (error) {
    if (!['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    return NOTHING;
  }
}
