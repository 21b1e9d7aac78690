import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageRoot } from '../../paths.js';
import { failed, Lines, within } from '../lines.js';
import type { Trajectory } from '../workload.js';
import type { Interval } from './timeline.js';

const PROGRAM = `${packageRoot}/src/bench/programs/detect_agent.py`;
const START_MS = 30_000;
const NS_PER_MS = 1e6;

/** A sandbox in which an agent lives: its own process group of plain processes, with nothing from AgentZip in it. */
export class InnerAgent {
  readonly tools: Interval[] = [];
  private readonly lines: Lines;

  private constructor(
    readonly sandbox: string,
    private readonly child: ChildProcess,
    private readonly startMs: number,
  ) {
    this.lines = new Lines(child.stdout!, sandbox);
  }

  /** Started, and ready to be told to begin. `daemon`: it has a process that does next to nothing all the time. */
  static async start(
    { sandbox, turns, startMs }: Trajectory,
    model: URL,
    daemon: boolean,
  ): Promise<InnerAgent> {
    const args = [model.hostname, model.port, sandbox, String(turns.length), daemon ? '1' : '0'];
    const child = spawn('/usr/bin/python3', ['-B', '-s', PROGRAM, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true,
    });
    const agent = new InnerAgent(sandbox, child, startMs);
    await within(agent.lines.next(), START_MS, `the start of ${sandbox}`);
    return agent;
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** Lives until its last turn; keeps what its tools did. `limitMs` bounds it. */
  async live(limitMs: number, signal: AbortSignal): Promise<void> {
    await sleep(this.startMs, undefined, { signal });
    const exited = once(this.child, 'exit');
    this.child.stdin!.write('\n');
    const end = within(exited, limitMs, `the agent in ${this.sandbox}`);
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
    this.read().catch(() => {}); // it ends with the stream
    const [code] = (await Promise.race([end, aborted])) as [number | null];
    if (code !== 0) throw failed(`the agent in ${this.sandbox} ended with ${code ?? 'a signal'}`);
  }

  private async read(): Promise<void> {
    for (;;) {
      const { start, end } = JSON.parse(await this.lines.next()) as { start: number; end: number };
      this.tools.push([start / NS_PER_MS, end / NS_PER_MS]);
    }
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    process.kill(-this.pid, 'SIGKILL');
    await exited;
  }
}
