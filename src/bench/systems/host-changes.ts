import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { AgentZipError, explain } from '../../errors.js';
import { identify, isAlive, type ProcessId } from '../../memory/process.js';
import { swapAreas } from '../../memory/swap.js';
import { SWAP_FLAG_PREFER, swapoff, swapon } from '../../native/system.js';
import { readKnob, writeKnob } from './knobs.js';

const FOLDER = '/var/tmp';
const JOURNAL = /^agentzip-bench-\d+-\d+\.undo\.json$/;
/** The highest there is: pages go to the system under test whatever other swap the host has. */
const PRIORITY = 32_767;
const ZRAM_CONTROL = '/sys/class/zram-control';
/** udev opens a new block device for a moment, and a device that is open can not be removed. */
const BUSY_MS = 10_000;

/** One thing to undo. Each can be undone again when it was before. */
type Step =
  | { kind: 'knob'; path: string; value: string; via?: string }
  | { kind: 'swap'; path: string }
  | { kind: 'zram'; device: number }
  | { kind: 'file'; path: string };

interface Journal {
  /** Kernel settings do not outlive a boot: the journal of an earlier one names only files. */
  boot: string;
  owner: ProcessId;
  steps: Step[];
}

const run = promisify(execFile);
const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/**
 * What a system under test changes on this host: knobs, swap areas, zram devices, files. Every change is written to a
 * journal in /var/tmp before it is made, so that it is undone by `undo`, or, when the bench was killed outright, by
 * the `undoStale` of the next one.
 */
export class HostChanges {
  private static count = 0;
  private readonly file: string;
  private readonly journal: Journal;

  constructor() {
    this.file = `${FOLDER}/agentzip-bench-${process.pid}-${++HostChanges.count}.undo.json`;
    const owner = identify(process.pid);
    if (owner === null) throw new Error('this process has no entry in /proc');
    this.journal = { boot: bootId(), owner, steps: [] };
  }

  /**
   * Sets a knob that will be set back; one that this kernel does not have is passed over, false. `via` is written
   * before it is set back.
   */
  async setKnob(path: string, value: string, via?: string): Promise<boolean> {
    const before = readKnob(path);
    if (before === null) return false;
    if (before === value) return true;
    const known = this.journal.steps.some((step) => step.kind === 'knob' && step.path === path);
    if (!known) this.record({ kind: 'knob', path, value: before, via });
    await writeKnob(path, value);
    return true;
  }

  /** Makes a zram device and returns its number. */
  addZram(): number {
    const device = Number(readFileSync(`${ZRAM_CONTROL}/hot_add`, 'utf8')); // reading it makes one
    this.record({ kind: 'zram', device });
    return device;
  }

  /** Makes a file of `bytes` whose blocks are allocated, for root alone. */
  async addFile(path: string, bytes: number): Promise<void> {
    this.record({ kind: 'file', path });
    writeFileSync(path, '', { mode: 0o600 });
    await run('fallocate', ['-l', String(bytes), path]);
  }

  /** Makes a device or file the swap area that is used first. */
  async swapOn(path: string): Promise<void> {
    await run('mkswap', [path]);
    this.record({ kind: 'swap', path });
    await swapon(path, SWAP_FLAG_PREFER | PRIORITY);
  }

  /** Undoes all changes, the last one first; harmless when done before. AZ_HOST_NOT_CLEAN names what failed. */
  async undo(): Promise<void> {
    const failures = await undoSteps(this.journal.steps);
    if (failures.length === 0) return rmSync(this.file, { force: true });
    this.save();
    throw new AgentZipError('AZ_HOST_NOT_CLEAN', {
      what: failures.join('; '),
      remedy: `the next bench tries again, from ${this.file}`,
    });
  }

  private record(step: Step): void {
    this.journal.steps.push(step);
    this.save();
  }

  private save(): void {
    writeFileSync(`${this.file}.new`, JSON.stringify(this.journal), { mode: 0o600 });
    renameSync(`${this.file}.new`, this.file);
  }
}

/**
 * Undoes what benches changed that have ended without doing so themselves, and says what it was.
 * AZ_HOST_NOT_CLEAN names what can not be undone.
 */
export async function undoStale(): Promise<string[]> {
  const undone: string[] = [];
  for (const name of readdirSync(FOLDER).filter((name) => JOURNAL.test(name))) {
    const file = `${FOLDER}/${name}`;
    const { boot, owner, steps } = JSON.parse(readFileSync(file, 'utf8')) as Journal;
    if (boot === bootId() && isAlive(owner)) continue;
    const ours = steps.filter((step) => boot === bootId() || step.kind === 'file');
    undone.push(...ours.filter(inEffect).map(describe));
    const failures = await undoSteps(ours);
    if (failures.length > 0)
      throw new AgentZipError('AZ_HOST_NOT_CLEAN', {
        what: failures.join('; '),
        remedy: `undo it by hand, then remove ${file}`,
      });
    rmSync(file);
  }
  return undone;
}

/** Changes recorded in journals, by this process or by one that has ended, that are still in effect. */
export function leftChanges(): string[] {
  return readdirSync(FOLDER)
    .filter((name) => JOURNAL.test(name))
    .map((name) => JSON.parse(readFileSync(`${FOLDER}/${name}`, 'utf8')) as Journal)
    .filter(({ boot, owner }) => boot === bootId() && (owner.pid === process.pid || !isAlive(owner)))
    .flatMap(({ steps }) => steps.filter(inEffect).map(describe));
}

/** Undoes `steps` from the last to the first and takes away those that are undone; returns what failed. */
async function undoSteps(steps: Step[]): Promise<string[]> {
  const failures: string[] = [];
  for (let i = steps.length - 1; i >= 0; i--) {
    try {
      await undoStep(steps[i]);
      steps.splice(i, 1);
    } catch (error) {
      failures.push(`${describe(steps[i])} (${explain(error)})`);
    }
  }
  return failures;
}

async function undoStep(step: Step): Promise<void> {
  switch (step.kind) {
    case 'knob':
      if (step.via !== undefined) await writeKnob(step.path, step.via);
      if (readKnob(step.path) !== step.value) await writeKnob(step.path, step.value);
      return;
    case 'swap':
      if (inEffect(step)) await swapoff(step.path);
      return;
    case 'zram':
      return removeZram(step.device);
    case 'file':
      return rmSync(step.path, { force: true });
  }
}

async function removeZram(device: number): Promise<void> {
  const deadline = Date.now() + BUSY_MS;
  while (existsSync(`/sys/block/zram${device}`)) {
    try {
      await writeKnob(`/sys/block/zram${device}/reset`, '1');
      await writeKnob(`${ZRAM_CONTROL}/hot_remove`, String(device));
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

function inEffect(step: Step): boolean {
  switch (step.kind) {
    case 'knob':
      return readKnob(step.path) !== step.value;
    case 'swap':
      return swapAreas().some(({ path }) => path === step.path);
    case 'zram':
      return existsSync(`/sys/block/zram${step.device}`);
    case 'file':
      return existsSync(step.path);
  }
}

function describe(step: Step): string {
  switch (step.kind) {
    case 'knob':
      return `${step.path}, which was ${step.value}`;
    case 'swap':
      return `swap ${step.path}`;
    case 'zram':
      return `device /dev/zram${step.device}`;
    case 'file':
      return `file ${step.path}`;
  }
}
