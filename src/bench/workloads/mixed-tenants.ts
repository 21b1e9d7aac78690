import { Random } from '../random.js';
import type { Plan, Workload } from '../workload.js';
import {
  ANALYSIS,
  DOCUMENTS,
  type NotebookPlanOptions,
  planData,
  planSession,
  planTrajectory,
} from './notebook.js';
import { notebookTemplate, prepareNotebooks } from './notebook-setup.js';

/** A record is a dict of objects in the one tenant's program: fewer rows than interpreter-8's make as much memory. */
const ROWS = 20_000;

const TENANTS = [
  { tenant: 'analysts', id: 'interpreter', module: 'analysis', program: ANALYSIS },
  { tenant: 'clerks', id: 'documents', module: 'documents', program: DOCUMENTS },
] as const;

/**
 * Two tenants in turn. Sandboxes 1 and 2, 3 and 4, … work on the same public data set and look at its file with the
 * same shell commands, each in its own tenant: what they read is equal byte for byte, and still must not be stored
 * once for both.
 */
export function planMixedTenants(options: NotebookPlanOptions): Plan {
  const { seed, sandboxes, turns, files, rows = ROWS } = options;
  const templates = TENANTS.map(({ id, tenant, module }) =>
    notebookTemplate({ id, tenant, launch: 'fork', module }, files),
  );
  const trajectories = Array.from({ length: sandboxes }, (_, index) => {
    const sandbox = `sandbox-${index + 1}`;
    const { tenant, id, program } = TENANTS[index % TENANTS.length];
    const shared = new Random(seed, 'data', Math.floor(index / TENANTS.length));
    const data = planData(shared, rows);
    const look = { tool: 'shell', args: { seed: shared.integer(0, 2 ** 31) } };
    const calls = planSession(new Random(seed, sandbox), program, data, turns);
    calls[0].splice(1, 0, look);
    return planTrajectory({ sandbox, template: id, tenant, calls }, options);
  });
  return { templates, trajectories };
}

export const mixedTenants: Workload = {
  name: 'mixed-tenants',
  description:
    'two tenants with a template each, data analysis and documents; nothing may be shared between them',
  sandboxes: 8,
  turns: 9,
  sandboxMiB: 100,
  prepare: prepareNotebooks,
  plan: planMixedTenants,
};
