import { matching } from '../policy/overrides.js';
import { leastWindowMs } from './windows/admission.js';
import type { Actuator, Decision, Explanation, SkipReason } from './api.js';
import type { Context } from './context.js';
import { trustDomain } from './claims/domain.js';
import { compresses, whoseOf } from './policies.js';
import type { Sandbox } from './sandboxes/sandbox.js';

const SKIPS: Record<SkipReason, string> = {
  expected_short: 'the host expects it to be shorter than leastMs',
  predicted_short: 'three in four such waits last at least lowMs, which is shorter than leastMs',
  too_dear: 'lowMs and streamMs together are shorter than costMs, what a window costs',
  memory_suffices: 'the mode is pressure, and the host is not short of memory',
};

function mode({ policies }: Context, sandbox: Sandbox, enabled: boolean): Decision {
  const { mode: value } = policies.of(sandbox);
  const set = matching(policies.live.current, whoseOf(sandbox)).findLast(
    (each) => each.set.mode !== undefined,
  );
  const source = set === undefined ? 'mode of the policy' : `override at ${set.at ?? 'no file'}`;
  const stops = [
    ...(enabled ? [] : ['AgentZip is disabled, or drains']),
    ...(policies.dryRun ? ['this is a dry run'] : []),
    ...(sandbox.paused ? ['it is paused'] : []),
    ...(compresses(value) ? [] : [`the mode is ${value}`]),
  ];
  const because = stops.length === 0 ? source : `${source}; nothing goes out: ${stops.join(', ')}`;
  return { what: 'mode', value, because, numbers: {} };
}

const ACTUATORS: Record<Actuator, string> = {
  process_madvise: 'its pages are its own, and are paged out through its processes',
  'memory.reclaim':
    'its processes map its memory together: its cgroup is told to reclaim it, and the store shares it with nothing',
};

function actuator({ actuator: value, finding }: Sandbox): Decision {
  const because = value === null ? (finding?.why ?? 'its host has it observed') : ACTUATORS[value];
  return { what: 'actuator', value, because, numbers: {} };
}

function domain({ policies }: Context, sandbox: Sandbox): Decision {
  const { id, spec } = sandbox;
  const rule = policies.of(sandbox).trust.domain;
  const now = trustDomain({ id, tenant: spec.tenant, template: spec.template }, rule);
  const because =
    now === sandbox.domain
      ? `trust.domain is ${rule}`
      : `it was registered under ${sandbox.rule}; trust.domain is ${rule} now, and holds when it is registered again`;
  return { what: 'trust domain', value: sandbox.domain, because, numbers: {} };
}

function template({ templates }: Context, sandbox: Sandbox): Decision {
  const { template: id } = sandbox.spec;
  if (id === undefined) return { what: 'template', value: null, because: 'its host named none', numbers: {} };
  const base = templates.baseFor(sandbox);
  if (base === null)
    return { what: 'template', value: null, because: `${id} belongs to another tenant`, numbers: {} };
  const { pages, distinctPages } = base;
  const because = base.public ? 'it is public' : 'it is of the same tenant';
  return { what: 'template', value: id, because, numbers: { pages, distinctPages } };
}

function phase({ policy }: Context, { phase: value, phaseSource }: Sandbox): Decision {
  const because = {
    host: 'its host tells',
    probes: 'the probes found it out: its host has told nothing',
    none: policy.detect.enabled
      ? 'nobody tells: its host has not, and the probes can not'
      : 'nobody tells: its host has not, and detect.enabled is false',
  }[phaseSource];
  return { what: 'phase', value, because, numbers: {} };
}

/** The last wait that began, and what was made of it. */
function wait({ policies, hostPressure }: Context, sandbox: Sandbox): Decision {
  const { judged } = sandbox;
  const leastMs = leastWindowMs(policies.of(sandbox), hostPressure.short);
  if (judged === null)
    return { what: 'wait', value: null, because: 'none has begun yet', numbers: { leastMs } };
  const { at, reason, prospect, acted, ...numbers } = judged;
  const { expectedMs = null, lowMs, costMs, streamMs, skippedInRow } = prospect;
  const used = acted ? 'window opened' : 'window would open';
  return {
    what: 'wait',
    value: reason === null ? used : reason,
    because: reason === null ? 'nothing speaks against it' : SKIPS[reason],
    numbers: { at, ...numbers, expectedMs, lowMs, costMs, streamMs, skippedInRow },
  };
}

function lastWindow({ lastWindow: last, windows, skippedWindows, ...rest }: Sandbox): Decision {
  const counts = { windows, skippedWindows, observedWindows: rest.observedWindows };
  if (last === null) return { what: 'last window', value: null, because: 'there was none', numbers: counts };
  const { reason, ...numbers } = last;
  return { what: 'last window', value: reason, because: 'that ended it', numbers: { ...counts, ...numbers } };
}

function prefetch({ policies, predictor }: Context, sandbox: Sandbox): Decision {
  const { enabled, start, minUse, maxWaste, maxMiB } = policies.of(sandbox).prefetch;
  if (!enabled) return { what: 'prefetch', value: 'off', because: 'prefetch.enabled is false', numbers: {} };
  const { score } = predictor.models.of(sandbox);
  const { accuracy, coverage, phases } = score.figures;
  const { optimism, aheadAccuracy } = score;
  const because =
    optimism > 1
      ? `it begins at ${start}, and bets less: optimism times as much went unused of late as was expected`
      : `it begins at ${start}, and bets as the model expects`;
  return {
    what: 'prefetch',
    value: 'on',
    because,
    numbers: { minUse, maxWaste, maxMiB, optimism, aheadAccuracy, accuracy, coverage, phases },
  };
}

const TIERS = {
  direct: 'what goes out is in the store at once',
  zswap: 'what goes out is in zswap first, and is brought down in a wait that lasts longer than warmMs',
  zram: 'what goes out is in zram first, and is written back in the wait',
} as const;

function tier({ info, policy }: Context): Decision {
  const { tier: wanted, zswap } = policy.pager;
  const kept = wanted === info.tier ? '' : `; ${wanted} is being put in its place`;
  const numbers: Decision['numbers'] = info.tier === 'zswap' ? { ...zswap } : {};
  return { what: 'tier', value: info.tier, because: TIERS[info.tier] + kept, numbers };
}

/** Why a sandbox is treated as it is: each decision from what it was, or would be, taken by. */
export function explain(context: Context, sandbox: Sandbox, enabled: boolean): Explanation {
  const { mode: of, encoding, pageout, prefetch: bets, trust } = context.policies.of(sandbox);
  const found = matching(context.policies.live.current, whoseOf(sandbox));
  return {
    id: sandbox.id,
    decisions: [
      mode(context, sandbox, enabled),
      actuator(sandbox),
      domain(context, sandbox),
      template(context, sandbox),
      phase(context, sandbox),
      wait(context, sandbox),
      lastWindow(sandbox),
      tier(context),
      prefetch(context, sandbox),
    ],
    overrides: found.map(({ at, match, set }) => ({ at: at ?? null, match, set })),
    policy: { mode: of, encoding, pageout, prefetch: bets, trust },
  };
}
