import { codingWorkload } from './coding.js';

/** As in the rollouts of reinforcement learning: many attempts at one task that mostly do the same. */
export const rollout = codingWorkload({
  name: 'rollout-16',
  description: '16 coding agents attempt the same task in one of 10 Python projects; the seed chooses which',
  sandboxes: 16,
  turns: 14,
  sandboxMiB: 120,
  divergence: 0.25,
  curiosity: 0.15,
});
