import { readFileSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';

/** Memory that must stay free when everything has come back in; bytes. */
const RESERVE_BYTES = 64 << 20;

/** MemAvailable of the host, bytes. */
export const availableBytes = (): number =>
  Number(/MemAvailable:\s+(\d+)/.exec(readFileSync('/proc/meminfo', 'latin1'))![1]) * 1024;

/** AZ_DRAIN_MEMORY, with the numbers, when `usedSlots` pages do not fit into `available` bytes. */
export function checkRoom(usedSlots: number, available: number): void {
  const needed = usedSlots * PAGE + RESERVE_BYTES;
  if (needed <= available) return;
  const mib = (bytes: number): number => Math.ceil(bytes / 2 ** 20);
  throw new AgentZipError('AZ_DRAIN_MEMORY', { neededMiB: mib(needed), availableMiB: mib(available) });
}
