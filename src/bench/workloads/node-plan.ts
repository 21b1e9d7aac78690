import { readFileSync } from 'node:fs';
import { packageRoot } from '../../paths.js';
import { Random } from '../random.js';
import type { ToolCall, Trajectory } from '../workload.js';
import { planTurnWait } from './waits.js';

/** A package that agents work on; see node-packages.json. */
interface Subject {
  name: string;
  /** Folder of its sources. */
  root: string;
  files: string[];
  tests: string[];
  names: string[];
  renames: { file: string; name: string }[];
}

/** See node-edits.json. */
export interface Edit {
  package: string;
  file: string;
  find: string;
  replace: string;
}

const read = <T>(name: string): T =>
  JSON.parse(readFileSync(`${packageRoot}/src/bench/workloads/${name}`, 'utf8')) as T;

export const PACKAGES = read<{ dependencies: Record<string, string>; subjects: Subject[] }>(
  'node-packages.json',
);
export const EDITS = read<{ edits: Edit[]; faults: Edit[] }>('node-edits.json');

type Kind =
  | ('explore' | 'read' | 'lookup' | 'change' | 'fault' | 'repair')
  | ('refactor' | 'lint' | 'test' | 'script' | 'inspect');

const START_SPREAD_MS = 3000;
/** How often an attempt leaves the common path for a step of its own. */
const DIVERGENCE = 0.2;
/** How often a step is in the package that the task is about; else it is in one of the others. */
const MAIN_SHARE = 0.6;
/** How often an agent does two things in a turn. */
const MORE_SHARE = 0.5;
const PATTERNS = [
  'export',
  'return',
  'throw new \\w*Error',
  '\\bany\\b',
  'TODO|FIXME|NOTE',
  'instanceof',
  '=== null',
];
/** What an agent does in a turn, as often as it is named. A fault is taken back in the turn after it. */
const KINDS = [
  'read',
  'lookup',
  'change',
  'change',
  'fault',
  'fault',
  'refactor',
  'lint',
  'test',
  'script',
] as const;
const OWN_KINDS = KINDS.filter((kind) => kind !== 'fault');

/** Steps that no attempt leaves out. */
const FIXED: ReadonlySet<Kind> = new Set(['explore', 'repair', 'inspect']);

/** What an attempt makes of a step depends on the step and on what it has done before, never on chance of its own. */
interface Step {
  kind: Kind;
  subject: Subject;
  /** Picks files, edits, tests. */
  pick: number;
  /** Names data and constants. */
  own: number;
}

function stepOf(random: Random, kind: Kind, main: Subject): Step {
  const other = random.pick(PACKAGES.subjects);
  const subject = random.next() < MAIN_SHARE ? main : other;
  return { kind, subject, pick: random.integer(0, 2 ** 20), own: random.integer(0, 2 ** 31) };
}

/** The steps of each turn that all attempts at a task share. */
function planTask(random: Random, turns: number): { main: Subject; steps: Step[][] } {
  const main = random.pick(PACKAGES.subjects);
  const steps: Step[][] = [];
  for (let turn = 0; turn < turns; turn++) {
    const drawn = turn === 0 ? 'explore' : turn === turns - 1 ? 'inspect' : random.pick(KINDS);
    const kind = steps[turn - 1]?.[0].kind === 'fault' ? 'repair' : drawn;
    const more = random.next() < MORE_SHARE ? [stepOf(random, random.pick(OWN_KINDS), main)] : [];
    steps.push([stepOf(random, kind, main), ...more]);
  }
  return { main, steps };
}

/** One attempt at a task: which edits it has made, and which fault is open. */
class Attempt {
  private readonly used = new Set<Edit>();
  private fault: Edit | undefined;
  /** What symbols are called by now. */
  private readonly renamed = new Map<object, string>();

  calls(step: Step): ToolCall[] {
    const { subject, pick, own } = step;
    const call = (tool: string, args: Record<string, unknown> = {}): ToolCall => ({
      tool,
      args: { package: subject.name, ...args },
    });
    const at = <T>(list: readonly T[], offset = 0): T => list[(pick + offset) % list.length];
    switch (step.kind) {
      case 'explore':
        return [
          call('list'),
          call('grep', { pattern: at(PATTERNS) }),
          call('read', { file: at(subject.files) }),
        ];
      case 'read':
        return [call('read', { file: at(subject.files) }), call('outline', { file: at(subject.files, 1) })];
      case 'lookup':
        return [
          call('references', { symbol: at(subject.names) }),
          call('grep', { pattern: `\\b${at(subject.names)}\\b` }),
        ];
      case 'change':
        return [this.change(step), call('typecheck', { files: [at(subject.files)] })];
      case 'fault':
        return [this.breakSomething(step), call('typecheck', { files: [at(subject.files)] })];
      case 'repair':
        return this.repair(step);
      case 'refactor':
        return [this.rename(step), call('typecheck', { files: [at(subject.files)] })];
      case 'lint':
        return [call('lint', { file: at(subject.files) }), this.change(step)];
      case 'test':
        return [call('test', { files: twoOf(subject.tests, pick) })];
      case 'script':
        return [call('script', { seed: own })];
      case 'inspect':
        return [call('test', { files: twoOf(subject.tests, pick) }), { tool: 'diff', args: {} }];
    }
  }

  /** An edit of the package that was not made yet, the same for every attempt that can still make it. */
  private change({ subject, pick, own }: Step): ToolCall {
    const edits = EDITS.edits.filter((edit) => edit.package === subject.name);
    const edit = edits[pick % edits.length];
    const digit = String(2 + (own % 8));
    if (!this.used.has(edit)) {
      this.used.add(edit);
      return editCall({ ...edit, replace: edit.replace.replaceAll('{n}', digit) });
    }
    const file = subject.files[pick % subject.files.length];
    const typed = file.endsWith('.ts') ? ': number' : '';
    const name = `${file.endsWith('.d.ts') ? 'declare ' : ''}const mark${own}`;
    const value = file.endsWith('.d.ts') ? '' : ` = ${own % 1000}`;
    return editCall({
      package: subject.name,
      file,
      find: '',
      replace: `\n/** Step ${pick}. */\n${name}${typed}${value};\n`,
    });
  }

  private breakSomething(step: Step): ToolCall {
    const faults = EDITS.faults.filter((edit) => edit.package === step.subject.name);
    const fault = faults[step.pick % faults.length];
    if (this.fault !== undefined) return this.change(step);
    this.fault = fault;
    return editCall(fault);
  }

  private repair(step: Step): ToolCall[] {
    const { fault } = this;
    if (fault === undefined) return [this.change(step), { tool: 'diff', args: {} }];
    this.fault = undefined;
    const subject = PACKAGES.subjects.find(({ name }) => name === fault.package) ?? step.subject;
    return [
      editCall({ ...fault, find: fault.replace, replace: fault.find }),
      { tool: 'typecheck', args: { package: fault.package, files: [] } },
      { tool: 'test', args: { package: fault.package, files: twoOf(subject.tests, step.pick) } },
    ];
  }

  private rename({ subject, pick, own }: Step): ToolCall {
    const symbol = subject.renames[pick % subject.renames.length];
    const now = this.renamed.get(symbol) ?? symbol.name;
    const to = `${symbol.name}${(own % 0x1000).toString(16)}${this.renamed.has(symbol) ? '_' : ''}`;
    this.renamed.set(symbol, to);
    return { tool: 'rename', args: { package: subject.name, file: symbol.file, symbol: now, to } };
  }
}

const editCall = ({ package: name, file, find, replace }: Edit): ToolCall => ({
  tool: 'edit',
  args: { package: name, file, find, replace },
});

/** Two test files that differ, or none where a package has none: its committed check is run then. */
const twoOf = (tests: readonly string[], pick: number): string[] =>
  tests.length === 0 ? [] : [tests[pick % tests.length], tests[(pick + 7) % tests.length]];

/**
 * Attempts at `tasks` tasks in turn. Those at one task share most steps; each takes some of its own. The first turn
 * looks around, the last one tests, shows what has changed and reads everything back.
 */
export function planNode(options: {
  seed: number;
  sandboxes: number;
  turns: number;
  timeScale: number;
  tasks: number;
  template: string;
  tenant: string;
}): Trajectory[] {
  const { seed, turns, timeScale, template, tenant } = options;
  const tasks = Array.from({ length: options.tasks }, (_, i) => planTask(new Random(seed, 'task', i), turns));
  return Array.from({ length: options.sandboxes }, (_, index) => {
    const sandbox = `sandbox-${index + 1}`;
    const { main, steps } = tasks[index % tasks.length];
    const random = new Random(seed, sandbox);
    const waits = new Random(seed, sandbox, 'waits');
    const attempt = new Attempt();
    const startMs = waits.next() * START_SPREAD_MS * timeScale;
    const planned = steps.map((shared, turn) => {
      const calls = shared.flatMap((step) => {
        const leaves = random.next() < DIVERGENCE;
        const own = stepOf(random, random.pick(OWN_KINDS), main);
        return attempt.calls(leaves && !FIXED.has(step.kind) ? own : step);
      });
      if (turn === turns - 1) calls.push({ tool: 'review', args: {} });
      return { ...planTurnWait(waits, timeScale), calls };
    });
    return { sandbox, template, tenant, startMs, turns: planned };
  });
}
