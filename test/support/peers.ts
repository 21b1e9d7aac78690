import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { MemoryMeter } from '../../src/bench/owned.js';
import { readKnob } from '../../src/bench/systems/knobs.js';

const KNOBS = [
  ...['enabled', 'compressor', 'max_pool_percent', 'shrinker_enabled'].map(
    (name) => `/sys/module/zswap/parameters/${name}`,
  ),
  ...['run', 'pages_to_scan', 'sleep_millisecs', 'advisor_mode', 'use_zero_pages', 'smart_scan'].map(
    (name) => `/sys/kernel/mm/ksm/${name}`,
  ),
  '/proc/sys/vm/swappiness',
  '/proc/swaps',
];

/** All of the host that the systems under test change, as text that can be compared. */
export const hostState = (): string[] => [
  ...KNOBS.map((path) => `${path} ${readKnob(path)}`),
  ...readdirSync('/sys/block').filter((name) => name.startsWith('zram')),
  ...readdirSync('/var/tmp').filter((name) => name.endsWith('.undo.json')),
];

/** A program that owns memory and answers one word a command, line by line. */
export class Holder {
  private readonly answers: AsyncIterableIterator<string>;
  private readonly meter = new MemoryMeter();

  private constructor(private readonly child: ChildProcessByStdio<Writable, Readable, null>) {
    this.answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Resolves when it has filled its memory. */
  static async start(command: readonly string[]): Promise<Holder> {
    const holder = new Holder(spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] }));
    const { value } = await holder.answers.next();
    if (value !== 'ready') throw new Error(`${command.join(' ')} said ${value}`);
    return holder;
  }

  get pid(): number {
    return this.child.pid as number;
  }

  get owned(): number {
    return this.meter.measure([this.pid]).owned;
  }

  get swapped(): number {
    return this.meter.measure([this.pid]).swapped;
  }

  async say(command: string): Promise<string> {
    this.child.stdin.write(`${command}\n`);
    return (await this.answers.next()).value;
  }

  async end(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }
}

/** Waits until `condition` holds; throws with `what` after 20 s. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`still not after 20 s: ${what}`);
    await sleep(50);
  }
}
