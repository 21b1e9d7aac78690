import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { AgentZipError, explain } from '../../errors.js';

/** The value in the text of a file of sysfs or procfs; of a choice, `lzo [lz4] zstd`, the one that is chosen. */
export const chosen = (text: string): string => /\[([^\]]+)\]/.exec(text)?.[1] ?? text.trim();

/** What a file of sysfs or procfs is set to; null when this kernel has no such file. */
export function readKnob(path: string): string | null {
  try {
    return chosen(readFileSync(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** What a choice offers, the chosen one among it; empty when this kernel has no such file. */
export function choices(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').replace(/[[\]]/g, ' ').split(/\s+/).filter(Boolean);
  } catch {
    return [];
  }
}

/**
 * Sets a knob, on a worker thread: some do their work while they are written (KSM unmerges, zram frees its pages).
 * AZ_WORKLOAD_FAILED with the kernel's answer when it is refused.
 */
export async function writeKnob(path: string, value: string): Promise<void> {
  try {
    await writeFile(path, value);
  } catch (error) {
    throw new AgentZipError(
      'AZ_WORKLOAD_FAILED',
      { reason: `${path} does not take ${value}: ${explain(error)}`, log: 'the kernel log' },
      { cause: error },
    );
  }
}
