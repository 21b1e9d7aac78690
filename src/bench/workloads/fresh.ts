import type { Workload } from '../workload.js';
import { planInterpreters } from './interpreter.js';
import { prepareNotebooks, randomisesAddresses } from './notebook-setup.js';

/**
 * The same sessions as interpreter-8, but no process is another's parent: addresses and string hashes differ in each,
 * and nothing is shared to begin with.
 */
export const fresh: Workload = {
  name: 'fresh-8',
  description:
    'data-analysis interpreters each started by itself, with randomised addresses and string hashes',
  sandboxes: 8,
  turns: 9,
  sandboxMiB: 200,
  async prepare(files, note, signal) {
    await prepareNotebooks(files, note, signal);
    if (!randomisesAddresses())
      note('kernel.randomize_va_space is not 2: sandboxes will be more alike here than they are elsewhere');
  },
  plan: (options) => planInterpreters(options, 'fresh'),
};
