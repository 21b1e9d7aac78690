import type { Workload } from '../workload.js';
import { bystanders } from './bystanders.js';
import { demo } from './demo.js';
import { filter } from './filter.js';
import { fresh } from './fresh.js';
import { interpreter } from './interpreter.js';
import { microvm } from './microvm.js';
import { mixedTenants } from './mixed-tenants.js';
import { node8 } from './node.js';
import { rollout } from './rollout.js';

/** Every workload, in the order in which they are listed. */
export const WORKLOADS: readonly Workload[] = [
  demo,
  rollout,
  filter,
  interpreter,
  fresh,
  node8,
  mixedTenants,
  bystanders,
  microvm,
];
