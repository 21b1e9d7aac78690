import { pythonCommand } from '../python.js';
import { Random } from '../random.js';
import type { Plan, PlanOptions, TemplatePlan, Trajectory, Workload } from '../workload.js';
import { planAttempt } from './projects/plan.js';
import { type Project, PROJECTS, taskFile } from './projects/project.js';
import { dependenciesOf, prepareProjects, projectRoot } from './projects/source.js';
import { planTurnWait } from './waits.js';

const TENANT = 'coding';
/** Attempts of one task start together, as a platform gets round to them. */
const START_SPREAD_MS = 3000;

export interface Settings {
  name: string;
  description: string;
  sandboxes: number;
  turns: number;
  sandboxMiB: number;
  divergence: number;
  curiosity: number;
  /** Multiplies every wait, with the run's own scale. */
  waitScale?: number;
  /** Default: true. See TaskPlanOptions. */
  suite?: boolean;
}

/** The project of a run: seeds 1, 2, 3 … take the projects in turn, by name. */
export const projectOf = (seed: number): Project => PROJECTS[(seed + PROJECTS.length - 1) % PROJECTS.length];

/**
 * Agents at work on one task in a Python project, all forked from one template in which the project is warm. Which
 * project follows from the seed.
 */
export const codingWorkload = (settings: Settings): Workload => ({
  name: settings.name,
  description: settings.description,
  sandboxes: settings.sandboxes,
  turns: settings.turns,
  sandboxMiB: settings.sandboxMiB,
  prepare: (files, note, signal) => prepareProjects(files, PROJECTS, note, signal),
  plan: (options) => planCoding(settings, options, forkedTemplate),
});

/** The program that attempts at a project's task come from. */
type TemplateOf = (files: string, project: Project) => Pick<TemplatePlan, 'command' | 'env'>;

const forkedTemplate: TemplateOf = (files, project) => ({
  command: pythonCommand(
    'rollout',
    projectRoot(files, project),
    dependenciesOf(files, project),
    taskFile(project.name),
  ),
  // A fixed order of sets of strings: what tests print must not depend on the run.
  env: { PYTHONHASHSEED: '0' },
});

export function planCoding(settings: Settings, options: PlanOptions, templateOf: TemplateOf): Plan {
  const { seed, sandboxes, turns, files } = options;
  const { divergence, curiosity, waitScale = 1, suite = true } = settings;
  const timeScale = options.timeScale * waitScale;
  const project = projectOf(seed);
  const trajectories = Array.from({ length: sandboxes }, (_, index): Trajectory => {
    const sandbox = `attempt-${index + 1}`;
    const waits = new Random(seed, sandbox, 'waits');
    const attempt = planAttempt(project, sandbox, { seed, turns, divergence, curiosity, suite });
    return {
      sandbox,
      template: project.name,
      tenant: TENANT,
      startMs: new Random(seed, sandbox, 'start').next() * START_SPREAD_MS * timeScale,
      turns: attempt.map((calls) => ({ ...planTurnWait(waits, timeScale), calls })),
    };
  });
  const template = {
    id: project.name,
    tenant: TENANT,
    launch: 'fork',
    ...templateOf(files, project),
  } as const;
  return { templates: [template], trajectories };
}
