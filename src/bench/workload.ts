/** A tool call as the model asks for it; `args` are the keyword arguments of the program's tool. */
export interface ToolCall {
  tool: string;
  args: Record<string, unknown>;
}

export interface Turn {
  /** From the request to the first token, and from there to the end of the stream. Milliseconds. */
  firstTokenMs: number;
  streamMs: number;
  calls: ToolCall[];
}

/** What one agent does in its sandbox, from start to end. */
export interface Trajectory {
  /** Names the sandbox; a file name. */
  sandbox: string;
  /** Id of a TemplatePlan of the same plan. */
  template: string;
  tenant: string;
  /** It asks no model: each turn waits for `firstTokenMs`, of which nobody is told, and calls its tools. */
  bystander?: true;
  /** Fan-outs do not start in one instant. */
  startMs: number;
  turns: Turn[];
}

/** A program that sandboxes come from; it speaks the protocol of program.ts. */
export interface TemplatePlan {
  /** Unique in its plan; a file name. */
  id: string;
  tenant: string;
  /**
   * fork: sandboxes are forked by the template process. fresh: every sandbox is started by itself; the template is
   * one more of them, warmed, given no work.
   */
  launch: 'fork' | 'fresh';
  /** argv with absolute program paths; the bench's pid is appended as the last argument. */
  command: string[];
  /** Added to PATH, HOME and TMPDIR, which the bench sets; HOME and TMPDIR are a folder of the run. */
  env: Record<string, string>;
}

export interface Plan {
  templates: TemplatePlan[];
  trajectories: Trajectory[];
}

export interface PlanOptions {
  seed: number;
  sandboxes: number;
  turns: number;
  /** Multiplies every wait. */
  timeScale: number;
  /** The folder that `prepare` filled. */
  files: string;
}

/** What so many sandboxes take together at their ends, roughly, in bytes. */
export const memoryOf = ({ sandboxMiB }: Pick<Workload, 'sandboxMiB'>, sandboxes: number): number =>
  sandboxes * sandboxMiB * 2 ** 20;

/** Agents at work: which programs, how many of each, and what they do when. */
export interface Workload {
  readonly name: string;
  /** One sentence. */
  readonly description: string;
  /** Defaults. */
  readonly sandboxes: number;
  readonly turns: number;
  /** What one sandbox takes at its end, roughly: checked against free memory before the run. */
  readonly sandboxMiB: number;
  /**
   * Brings what the workload needs into `files`, an absolute folder that is kept between runs, and says through `note`
   * what it installs. Idempotent, and quick when done.
   */
  prepare(files: string, note: (line: string) => void, signal: AbortSignal): Promise<void>;
  /** Same options, same plan, always. */
  plan(options: PlanOptions): Plan;
}
