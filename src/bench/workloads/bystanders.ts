import { Random } from '../random.js';
import type { Plan, PlanOptions, Trajectory, Workload } from '../workload.js';
import { planAttempt } from './projects/plan.js';
import { projectOf } from './coding.js';
import { rollout } from './rollout.js';

/** One for so many that wait. */
const WAITING_EACH = 4;
/** Between two calls of a bystander. */
const PAUSE_MS = { least: 500, spread: 500 };
/** What a call of an agent, and one of a bystander, takes, roughly. */
const CALL_MS = 150;

/** The agents of `rollout-16`, and beside them sandboxes of the same template that run tools all the time and never wait. */
export const bystanders: Workload = {
  ...rollout,
  name: 'bystanders-16',
  description: 'the agents of rollout-16, and a sandbox beside every four that runs tools and never waits',
  turns: 8,
  sandboxMiB: rollout.sandboxMiB * (1 + 1 / WAITING_EACH),
  plan(options) {
    const plan = rollout.plan(options);
    return { ...plan, trajectories: [...plan.trajectories, ...planBystanders(options, plan)] };
  },
};

/** They go on for as long as the slowest agent is planned to. */
function planBystanders({ seed, sandboxes }: PlanOptions, { templates, trajectories }: Plan): Trajectory[] {
  const [{ id: template, tenant }] = templates;
  const longest = Math.max(...trajectories.map(durationMs));
  const turns = Math.ceil(longest / (PAUSE_MS.least + PAUSE_MS.spread / 2 + CALL_MS));
  return Array.from({ length: Math.ceil(sandboxes / WAITING_EACH) }, (_, index) => {
    const sandbox = `bystander-${index + 1}`;
    const pauses = new Random(seed, sandbox, 'pauses');
    const attempt = planAttempt(projectOf(seed), sandbox, {
      ...{ seed, turns, divergence: 0.5, curiosity: 0, suite: true },
    });
    return {
      ...{ sandbox, template, tenant, bystander: true, startMs: pauses.next() * PAUSE_MS.least },
      turns: attempt.map((calls) => ({
        firstTokenMs: PAUSE_MS.least + pauses.next() * PAUSE_MS.spread,
        streamMs: 0,
        calls,
      })),
    };
  });
}

const durationMs = ({ startMs, turns }: Trajectory): number =>
  turns.reduce(
    (sum, { firstTokenMs, streamMs, calls }) => sum + firstTokenMs + streamMs + calls.length * CALL_MS,
    startMs,
  );
