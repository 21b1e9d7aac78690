import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** Reads and writes that a block device has not answered yet; `device` is a path like `/dev/loop3`. */
export function inflight(device: string): { reads: number; writes: number } {
  const text = readFileSync(`/sys/block/${basename(device)}/inflight`, 'utf8');
  const [reads, writes] = text.trim().split(/\s+/).map(Number);
  return { reads, writes };
}
