import { Random } from '../../random.js';
import type { ToolCall } from '../../workload.js';
import type { Project } from './project.js';

export interface TaskPlanOptions {
  seed: number;
  turns: number;
  /** How often an attempt leaves the common path for a choice of its own, and how often it looks at something more. */
  divergence: number;
  curiosity: number;
  /** Whether it runs all tests at its end. */
  suite: boolean;
}

const LOOKS = ['grep', 'read', 'references', 'list'] as const;
const OPENING = ['list', 'grep', 'read', 'read', 'references', 'script', 'read'] as const;
const CYCLE = ['edit', 'test', 'read', 'edit', 'test', 'script', 'edit', 'grep', 'test'] as const;
/** Part of the turns before the first edit. */
const OPENING_SHARE = 0.4;

type Look = (typeof LOOKS)[number];
type Kind = Look | 'script' | 'edit' | 'test';
/** A step of a path: what to do, and which of the task's things of that kind to do it with. */
interface Step {
  kind: Kind;
  /** Uniform in [0, 1). */
  which: number;
  way: number;
}

/**
 * What the attempts at one project's task do, turn by turn. All follow the task's path: they look around, then change,
 * test and look again, and in the last turn show their changes, run the suite unless it takes too long, and read everything back. With
 * probability `divergence` an attempt takes another thing of the step's kind: another file, another way to change the
 * same place, other tests; with `curiosity` it looks at one thing more in the same turn.
 */
export function planAttempt(project: Project, sandbox: string, options: TaskPlanOptions): ToolCall[][] {
  const { seed, turns, divergence, curiosity } = options;
  const own = new Random(seed, sandbox);
  const steps = taskPath(project, seed, turns);
  const hand = new Hand(project);
  return steps.map((step, turn) => {
    const [leaves, which, way] = [own.next() < divergence, own.next(), own.next()];
    const [looks, look, at] = [own.next() < curiosity, own.pick(LOOKS), own.next()];
    const calls = [hand.call(leaves ? { kind: step.kind, which, way } : step)];
    if (looks) calls.push(hand.call({ kind: look, which: at, way: 0 }));
    if (turn === turns - 1) calls.push(...hand.handIn(options.suite));
    return calls;
  });
}

/** The steps of the task, equal for all its attempts; a longer path begins as a shorter one of the same phase. */
function taskPath(project: Project, seed: number, turns: number): Step[] {
  const task = new Random(seed, project.name, 'task');
  const opening = Math.min(Math.ceil(turns * OPENING_SHARE), OPENING.length);
  return Array.from({ length: turns }, (_, turn) => {
    const kind = turn < opening ? OPENING[turn] : CYCLE[(turn - opening) % CYCLE.length];
    return { kind, which: task.next(), way: task.next() };
  });
}

const at = <T>(items: readonly T[], part: number): T => items[Math.floor(part * items.length)];

/** One attempt's hand: turns steps into calls, and knows what it has changed so far. */
class Hand {
  /** By place in the project's edits: the way that stands in the file now. */
  private readonly done = new Map<number, number>();

  constructor(private readonly project: Project) {}

  call(step: Step): ToolCall {
    const { project } = this;
    switch (step.kind) {
      case 'list':
        return { tool: 'list', args: { path: at(project.lists, step.which) } };
      case 'grep': {
        const [pattern, path] = at(project.greps, step.which);
        return { tool: 'grep', args: { pattern, path } };
      }
      case 'read': {
        const [path, start] = at(project.reads, step.which);
        return { tool: 'read', args: { path, start } };
      }
      case 'references': {
        const [name, path] = at(project.references, step.which);
        return { tool: 'references', args: { name, path } };
      }
      case 'script':
        return { tool: 'script', args: { code: at(project.scripts, step.which) } };
      case 'test':
        return { tool: 'test', args: { args: at(project.tests, step.which) } };
      case 'edit':
        return this.edit(step);
    }
  }

  /** The end of every attempt. */
  handIn(suite: boolean): ToolCall[] {
    const test = { tool: 'test', args: { args: this.project.suite } };
    return [{ tool: 'diff', args: {} }, ...(suite ? [test] : []), { tool: 'review', args: {} }];
  }

  /** Changes a place, or changes it again in another way. */
  private edit({ which, way }: Step): ToolCall {
    const { edits } = this.project;
    const slot = Math.floor(which * edits.length);
    const { path, old, ways } = edits[slot];
    const before = this.done.get(slot);
    const chosen = Math.floor(way * ways.length);
    const next = chosen === before ? (chosen + 1) % ways.length : chosen;
    this.done.set(slot, next);
    return { tool: 'edit', args: { path, old: before === undefined ? old : ways[before], new: ways[next] } };
  }
}
