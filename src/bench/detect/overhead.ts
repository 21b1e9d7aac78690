import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { packageRoot } from '../../paths.js';
import { Probes } from '../../telemetry/probes.js';
import { Lines, within } from '../lines.js';
import { type Spread, spread } from '../stats.js';
import { Observer } from './observer.js';

const PROGRAM = `${packageRoot}/src/bench/programs/page_toucher.py`;
const PAGES = 2048;
/** Passes over the pages in one measurement, of which the quickest counts: some 5 ms each. */
const PASSES = 24;
const LIMIT_MS = 60_000;
const TAG = 1;

/**
 * Without probes; with those that the service loads, of which none tracks it, or which do; and the same two with those of page
 * faults as well (`detect.faults: probes`).
 */
const STATES = ['bare', 'untracked', 'tracked', 'untrackedFaults', 'trackedFaults'] as const;
type State = (typeof STATES)[number];
type Loaded = Exclude<State, 'bare'>;

/** CPU time of a process that only touches fresh pages, beyond that without probes, over that without: medians. */
export interface Overhead extends Record<Loaded, number> {
  /** The same, with the least and greatest of the rounds; and what a fault took without probes, ns. */
  rounds: Record<Loaded | 'faultNs', Spread>;
}

/** A process that touches fresh pages, and tells the least CPU time that a pass took. */
class Toucher {
  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: Lines,
  ) {}

  static async start(): Promise<Toucher> {
    const child = spawn('/usr/bin/python3', ['-B', '-S', PROGRAM, String(PAGES)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const lines = new Lines(child.stdout!, 'the toucher');
    await within(lines.next(), LIMIT_MS, 'the start of the toucher');
    return new Toucher(child, lines);
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** CPU time of one fault, ns. */
  async faultNs(): Promise<number> {
    this.child.stdin!.write(`${PASSES}\n`);
    return Number(await within(this.lines.next(), LIMIT_MS, 'touching')) / PAGES;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }
}

async function measure(state: State, toucher: Toucher): Promise<number> {
  if (state === 'bare') return toucher.faultNs();
  const probes = Probes.load({ faults: state.endsWith('Faults') });
  const observer = new Observer(probes);
  try {
    if (state.startsWith('tracked')) observer.add(TAG, [toucher.pid]);
    return await toucher.faultNs();
  } finally {
    observer.close();
    probes.close();
  }
}

/** Measures each state once a round, beginning with another one in each, and compares within the round. */
export async function measureOverhead(
  rounds: number,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<Overhead> {
  const toucher = await Toucher.start();
  const found = Object.fromEntries(STATES.map((state) => [state, [] as number[]])) as Record<State, number[]>;
  try {
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < STATES.length; i++) {
        signal.throwIfAborted();
        const state = STATES[(i + round) % STATES.length];
        found[state].push(await measure(state, toucher));
      }
      if ((round + 1) % 10 === 0) note(`overhead: round ${round + 1} of ${rounds}`);
    }
  } finally {
    await toucher.stop();
  }
  const beyond = (state: State): Spread => spread(found[state].map((ns, i) => ns / found.bare[i] - 1));
  const loaded = STATES.filter((state) => state !== 'bare');
  const spreads = Object.fromEntries(loaded.map((state) => [state, beyond(state)])) as Record<Loaded, Spread>;
  const medians = Object.fromEntries(loaded.map((state) => [state, spreads[state].median]));
  return { ...(medians as Record<Loaded, number>), rounds: { ...spreads, faultNs: spread(found.bare) } };
}
