import { readFileSync } from 'node:fs';

export { inflight } from '../native/block-device.js';

export interface SwapArea {
  path: string;
  /** `partition` for block devices, `file` otherwise. */
  kind: string;
  sizeBytes: number;
  usedBytes: number;
  priority: number;
}

/** Parses `/proc/swaps`. */
export function parseSwaps(text: string): SwapArea[] {
  return text
    .split('\n')
    .slice(1)
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [path, kind, size, used, priority] = line.split(/\s+/);
      const bytes = (kib: string): number => Number(kib) * 1024;
      return { path, kind, sizeBytes: bytes(size), usedBytes: bytes(used), priority: Number(priority) };
    });
}

export const swapAreas = (): SwapArea[] => parseSwaps(readFileSync('/proc/swaps', 'utf8'));

/** One value of `/proc/meminfo`, in bytes; 0 when this kernel does not list it. */
export function memInfo(name: string, text: string = readFileSync('/proc/meminfo', 'utf8')): number {
  const match = new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text);
  return match ? Number(match[1]) * 1024 : 0;
}
