import { Random } from '../random.js';
import type { PlanOptions, ToolCall, Trajectory } from '../workload.js';
import { planTurnWait } from './waits.js';

/** Kinds of data sets, of programs/schemas.py. */
const KINDS = ['sales', 'stations', 'trips', 'requests'] as const;
/** Rows of a data set: its file is some 4.4 MB, and an analysis of nine turns grows to 60–100 MiB. */
export const DEFAULT_ROWS = 30_000;
/** Users ask when they like: the sandboxes' first requests are spread over this time. */
const START_SPREAD_MS = 5000;
const SEED_LIMIT = 2 ** 31;

export interface NotebookPlanOptions extends PlanOptions {
  /** Rows of each data set; tests use few. */
  rows?: number;
}

/** What a program of programs/notebook.py offers an agent, and how agents use it. */
export interface Program {
  /** The first turns: reading the data, preparing it. `fetch` comes before them. */
  opening: readonly (readonly string[])[];
  /** What may come then; a name that is there twice is twice as likely. */
  steps: readonly string[];
  /** For a step that is a model's training: what can be trained. The model is then mostly put to use at once. */
  models?: readonly string[];
}

export const ANALYSIS: Program = {
  opening: [['load'], ['clean', 'group']],
  steps: [
    ...['group', 'merge', 'pivot', 'rolling', 'train', 'train', 'train'],
    ...['plot', 'plot', 'report', 'shell', 'vectorise'],
  ],
  models: ['logistic', 'forest', 'kmeans', 'pca'],
};

export const DOCUMENTS: Program = {
  opening: [['read'], ['index']],
  steps: ['nest', 'query', 'query', 'extract', 'render', 'tree', 'revise', 'archive', 'shell', 'index'],
};

const PREDICT_SHARE = 0.8;
const TWO_CALLS_SHARE = 0.5;

/** A data set to be fetched: equal arguments, equal bytes. */
export function planData(random: Random, rows: number): ToolCall {
  return {
    tool: 'fetch',
    args: { kind: random.pick(KINDS), seed: random.integer(0, SEED_LIMIT), rows },
  };
}

/**
 * The calls of one session, turn by turn: the data arrives and is prepared, steps of the agent's own follow, one or
 * two a turn, and the last turn ends with a reading of everything. A longer session begins as a shorter one does.
 */
export function planSession(random: Random, program: Program, data: ToolCall, turns: number): ToolCall[][] {
  const { opening, steps, models = [] } = program;
  const call = (tool: string): ToolCall => ({ tool, args: { seed: random.integer(0, SEED_LIMIT) } });
  // No arguments: what reads the file reads it as it is.
  const prepare = (tool: string, turn: number): ToolCall => (turn === 0 ? { tool, args: {} } : call(tool));
  let last = '';
  const next = (): ToolCall => {
    let tool = random.pick(steps);
    while (tool === last) tool = random.pick(steps);
    last = tool;
    const planned = call(tool);
    return tool === 'train' ? { tool, args: { model: random.pick(models), ...planned.args } } : planned;
  };
  const planTurn = (turn: number): ToolCall[] => {
    if (turn === 0) return [data, ...opening[0].map((tool) => prepare(tool, turn))];
    if (turn < opening.length) return opening[turn].map((tool) => prepare(tool, turn));
    const first = next();
    if (first.tool === 'train' && random.next() < PREDICT_SHARE) return [first, call('predict')];
    return random.next() < TWO_CALLS_SHARE ? [first, next()] : [first];
  };
  const calls = Array.from({ length: turns }, (_, turn) => planTurn(turn));
  calls.at(-1)?.push({ tool: 'review', args: {} });
  return calls;
}

/** The trajectory of sandbox `sandbox`, with waits of its own. */
export function planTrajectory(
  from: { sandbox: string; template: string; tenant: string; calls: ToolCall[][] },
  { seed, timeScale }: PlanOptions,
): Trajectory {
  const { calls, ...names } = from;
  const wait = new Random(seed, names.sandbox, 'waits');
  const startMs = new Random(seed, names.sandbox, 'start').next() * START_SPREAD_MS * timeScale;
  return { ...names, startMs, turns: calls.map((of) => ({ ...planTurnWait(wait, timeScale), calls: of })) };
}
