import { readTierFacts, tierObstacle } from '../../pager/swap/tier-choice.js';
import { type SystemEntry, type SystemName, type TierName, TIERS } from '../system.js';
import { AgentZipService } from './agentzip.js';
import { ClockedService } from './no-windows.js';
import { NoSystem } from './none.js';
import { PEERS } from './peers.js';

/** AgentZip with something other than the default policy. */
const variant = (name: SystemName, description: string, policy: Record<string, unknown>): SystemEntry => ({
  description,
  make: (context) => new AgentZipService(context, { name, policy }),
});

/** AgentZip with something else of the kernel's before its device. */
const tiered = (tier: TierName): SystemEntry => ({
  ...variant(TIERS[tier], `AgentZip with the kernel's ${tier} before its device`, { pager: { tier } }),
  requires: () => tierObstacle(tier, readTierFacts()),
});

/** Every system under test, in the order in which they are listed. */
export const SYSTEMS: Readonly<Record<SystemName, SystemEntry>> = {
  none: { description: 'no memory system', make: () => new NoSystem() },
  agentzip: variant('agentzip', 'AgentZip with its default policy', {}),
  'agentzip-no-delta': variant('agentzip-no-delta', 'AgentZip that stores no page as a delta of another', {
    encoding: { delta: false },
  }),
  'agentzip-no-siblings': variant(
    'agentzip-no-siblings',
    "AgentZip whose deltas are against the template's pages only, not those of other sandboxes",
    { encoding: { siblings: false } },
  ),
  'agentzip-no-prefetch': variant(
    'agentzip-no-prefetch',
    'AgentZip that puts no page back before it is asked for',
    { prefetch: { enabled: false } },
  ),
  'agentzip-no-windows': {
    description:
      'AgentZip told by a clock: every sandbox is taken to wait 4 s of every 10 s, whatever it does',
    make: (context) => new ClockedService(context, { name: 'agentzip-no-windows' }),
  },
  'agentzip-hot-pages-kept': variant(
    'agentzip-hot-pages-kept',
    'AgentZip that leaves pages in memory which the last two tool phases were seen to use',
    { pageout: { hotPhases: 2 } },
  ),
  'agentzip-no-dictionary': variant(
    'agentzip-no-dictionary',
    'AgentZip that compresses pages without a base by themselves, without a dictionary',
    { encoding: { dictionary: false } },
  ),
  'agentzip-predicted': variant(
    'agentzip-predicted',
    "AgentZip that prefetches shortly before the model's answer is expected to end",
    { prefetch: { start: 'predicted' } },
  ),
  'agentzip-first-token': variant('agentzip-first-token', 'AgentZip that prefetches at the first token', {
    prefetch: { start: 'first_token' },
  }),
  'agentzip-zswap': tiered('zswap'),
  'agentzip-zram': tiered('zram'),
  ...PEERS,
};
