import { MISSING_TIER, readTierFacts, tierObstacle, type TierFacts } from '../../pager/swap/tier-choice.js';
import { refusal, type Requirement } from './requirement.js';

type Tier = keyof typeof MISSING_TIER;

/** Which tiers this host can have, and why not the others; required is the one that `setting`, pager.tier of the policy, names. */
export function tiers(setting: Tier, facts: TierFacts = readTierFacts()): Requirement[] {
  return (['zswap', 'zram'] as const).map((tier) => {
    const reason = tierObstacle(tier, facts);
    const isSet = tier === setting;
    return {
      id: `tier ${tier}`,
      level: isSet ? 'required' : 'optional',
      ok: reason === null,
      found: reason ?? (isSet ? 'can be had, and is set' : `can be had; set is ${setting}`),
      needed: `${tier} before the pager's device (pager.tier)`,
      ...refusal(MISSING_TIER[tier], { reason: reason ?? '' }),
    };
  });
}
