import { Random } from '../random.js';
import type { Plan, Workload } from '../workload.js';
import {
  ANALYSIS,
  DEFAULT_ROWS,
  type NotebookPlanOptions,
  planData,
  planSession,
  planTrajectory,
} from './notebook.js';
import { notebookTemplate, prepareNotebooks } from './notebook-setup.js';

const TENANT = 'analysts';

/** Sessions of users of one platform: the same interpreter, each with data and steps of its own. */
export function planInterpreters(options: NotebookPlanOptions, launch: 'fork' | 'fresh'): Plan {
  const { seed, sandboxes, turns, rows = DEFAULT_ROWS } = options;
  const template = notebookTemplate(
    { id: 'interpreter', tenant: TENANT, launch, module: 'analysis' },
    options.files,
  );
  const trajectories = Array.from({ length: sandboxes }, (_, index) => {
    const sandbox = `sandbox-${index + 1}`;
    const random = new Random(seed, sandbox);
    const calls = planSession(random, ANALYSIS, planData(random, rows), turns);
    return planTrajectory({ sandbox, template: template.id, tenant: TENANT, calls }, options);
  });
  return { templates: [template], trajectories };
}

export const interpreter: Workload = {
  name: 'interpreter-8',
  description: 'data-analysis interpreters forked from one warmed template, each with its own data and steps',
  sandboxes: 8,
  turns: 9,
  sandboxMiB: 100,
  prepare: prepareNotebooks,
  plan: (options) => planInterpreters(options, 'fork'),
};
