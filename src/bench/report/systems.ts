import type { BenchResult, SystemResult } from '../result.js';

/** What a system is in the comparison: it decides its colour and mark in every plot. */
export type Role = 'none' | 'agentzip' | 'ablation' | 'other';

export function roleOf(system: string): Role {
  if (system === 'none' || system === 'agentzip') return system;
  return system.startsWith('agentzip-') ? 'ablation' : 'other';
}

export const colourOf = (system: string): string => `var(--${roleOf(system)})`;

export const named = (result: BenchResult, name: string): SystemResult | undefined =>
  result.systems.find(({ system }) => system === name);

/** The system that ratios compare with: `none`, or without it the first one. */
export const baselineOf = (result: BenchResult): SystemResult => named(result, 'none') ?? result.systems[0];

/** The system that the page is about. */
export function subjectOf(result: BenchResult): SystemResult {
  const others = result.systems.filter(({ system }) => system !== 'none');
  return named(result, 'agentzip') ?? others[0] ?? result.systems[0];
}

const ORDER: readonly Role[] = ['none', 'agentzip', 'other', 'ablation'];

/** The result with its systems in the order in which the page shows them. */
export const inOrder = (result: BenchResult): BenchResult => ({
  ...result,
  systems: [...result.systems].sort(
    (a, b) => ORDER.indexOf(roleOf(a.system)) - ORDER.indexOf(roleOf(b.system)),
  ),
});

/** What readers of the paper report of it; its own machines and repositories, so for orientation only. */
export const PAPER = {
  source: 'arXiv 2609.11294',
  points: [
    { name: 'paper, 16-way', setting: '16-way rollout', reduction: 8.7, slowdown: 1.403, lessPercent: 88.55 },
    {
      name: 'paper, 4-way',
      setting: '4-way generate-and-filter',
      reduction: 2.8,
      slowdown: 1.468,
      lessPercent: 64.29,
    },
  ],
} as const;
