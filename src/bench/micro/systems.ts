import type { System, SystemContext, SystemEntry, TierName } from '../system.js';
import { AgentZipService } from '../systems/agentzip.js';
import { PeerSystem } from '../systems/peer.js';
import { swapBytes } from '../systems/swap-size.js';
import { Zram, zramLacks } from '../systems/zram.js';
import { Zswap, zswapLacks } from '../systems/zswap.js';
import type { MicroSystem, SwapSettings } from './result.js';

/** The systems of the micro bench: swap alone, which the bench itself makes use of, and AgentZip without a prefetch. */
export const swaps = ({ tier, zramAlgorithm }: SwapSettings): Readonly<Record<MicroSystem, SystemEntry>> => ({
  agentzip: {
    description: `AgentZip with tier ${tier} and else its default policy; prefetch off but for its own figure`,
    make: (context) => zip(context, tier, false),
  },
  zswap: {
    description: "the kernel's zswap before a swap file",
    requires: zswapLacks,
    make: ({ folder, memoryBytes }) =>
      new PeerSystem('zswap-aggressive', () => [new Zswap(`${folder}/zswap.swap`, swapBytes(memoryBytes))]),
  },
  zram: {
    description: `the kernel's zram with ${zramAlgorithm}`,
    requires: () => zramLacks(zramAlgorithm),
    make: ({ memoryBytes }) =>
      new PeerSystem(`zram-${zramAlgorithm}-aggressive`, () => [
        new Zram(zramAlgorithm, swapBytes(memoryBytes)),
      ]),
  },
});

/** AgentZip with its default policy, but for the tier and the prefetch: off, or on for any number of pages. */
export const zip = (context: SystemContext, tier: TierName, prefetch: boolean): System =>
  new AgentZipService(context, {
    name: 'agentzip',
    policy: { pager: { tier }, prefetch: { enabled: prefetch, start: 'first_token', maxMiB: 65_536 } },
  });
