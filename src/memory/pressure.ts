import { readFileSync } from 'node:fs';
import { memInfo } from './swap.js';

/** Shares of time, in percent, in which tasks waited for memory, over the last 10, 60 and 300 s; and their total, µs. */
export interface Stall {
  avg10: number;
  avg60: number;
  avg300: number;
  totalUs: number;
}

/** Pressure stall information (Documentation/accounting/psi.rst, Linux 4.20). */
export interface Pressure {
  /** At least one task waited; all that were not idle did at the same time. */
  some: Stall;
  full: Stall;
}

const LINE = /^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)$/;

/** Parses `/proc/pressure/memory`, or `memory.pressure` of a cgroup; null when it is none. */
export function parsePressure(text: string): Pressure | null {
  const found: Partial<Pressure> = {};
  for (const line of text.split('\n')) {
    const match = LINE.exec(line);
    if (match === null) continue;
    const [avg10, avg60, avg300, totalUs] = match.slice(2).map(Number);
    found[match[1] as keyof Pressure] = { avg10, avg60, avg300, totalUs };
  }
  const { some, full } = found;
  return some === undefined || full === undefined ? null : { some, full };
}

/** Pressure on the host's memory; or why it can not be told: a kernel without CONFIG_PSI, or booted with psi=0. */
export function readPressure(path = '/proc/pressure/memory'): Pressure | { missing: string } {
  try {
    const text = readFileSync(path, 'latin1');
    return parsePressure(text) ?? { missing: `${path} holds ${JSON.stringify(text.slice(0, 40))}` };
  } catch (error) {
    // Without CONFIG_PSI there is no file; with psi=0 opening it fails (EOPNOTSUPP).
    return { missing: `${path}: ${(error as NodeJS.ErrnoException).code}` };
  }
}

export interface HostMemory {
  totalBytes: number;
  /** What new work could take without swap, as the kernel estimates it. */
  availableBytes: number;
}

/** Memory of the host, from the text of `/proc/meminfo`. */
export function readHostMemory(text: string = readFileSync('/proc/meminfo', 'latin1')): HostMemory {
  return { totalBytes: memInfo('MemTotal', text), availableBytes: memInfo('MemAvailable', text) };
}
