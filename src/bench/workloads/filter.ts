import { codingWorkload } from './coding.js';

/**
 * As in generate-and-filter: few attempts, longer and less alike, each on a path of its own most of the time. The
 * filter is the end of each: the whole suite runs over what the attempt has changed.
 */
export const filter = codingWorkload({
  name: 'filter-4',
  description:
    '4 coding agents solve one task of a Python project each their own way, then all tests filter them',
  sandboxes: 4,
  turns: 22,
  sandboxMiB: 160,
  divergence: 0.7,
  curiosity: 0.35,
});
