import { filesFolder, workloadNamed } from '../bench.js';
import type { Screen } from '../live.js';
import { requireHost, runSession } from '../session.js';
import { memoryOf } from '../workload.js';
import { Capturer } from './capture.js';

export interface RunCaptureOptions {
  workload: string;
  /** Default: the workload's. */
  sandboxes?: number;
  turns?: number;
  seed: number;
  timeScale: number;
  /** Folder for what workloads install; kept. */
  files: string;
  /** See CaptureOptions. */
  folder: string;
  turn?: number;
  limitMiB: number;
  screen: Screen;
  /** Ends the capture early, in order; rejects with the signal's reason. */
  signal: AbortSignal;
}

/** Runs a workload once, without any memory system, and captures its templates and sandboxes on the way. */
export async function runCapture(options: RunCaptureOptions): Promise<void> {
  const { seed, timeScale, folder, turn, limitMiB, screen, signal } = options;
  const workload = workloadNamed(options.workload);
  const { sandboxes = workload.sandboxes, turns = workload.turns } = options;
  requireHost(sandboxes, workload.sandboxMiB, 'bench');
  const files = filesFolder(options.files);
  const capturer = new Capturer({ folder, workload: workload.name, seed, turn, limitMiB });
  try {
    await workload.prepare(files, (line) => screen.write(`${line}\n`), signal);
    signal.throwIfAborted();
    const plan = workload.plan({ seed, sandboxes, turns, timeScale, files });
    const memoryBytes = memoryOf(workload, sandboxes);
    const run = { plan, systems: ['none'] as const, runs: 1, seed, memoryBytes };
    await runSession({ ...run, onlooker: capturer, screen, signal }, () => undefined);
  } catch (error) {
    capturer.discard();
    throw error;
  }
  screen.write(
    `${capturer.dumps} sandboxes captured; agentzip bench --replay ${folder} puts them through the store\n`,
  );
}
