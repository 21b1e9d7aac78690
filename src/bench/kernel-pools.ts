import { readdirSync, readFileSync } from 'node:fs';
import { memInfo } from '../memory/swap.js';

/** Bytes of the kernel's compressed pools: zswap, and every zram device. */
export function kernelPoolBytes(): number {
  let bytes = memInfo('Zswap');
  for (const name of readdirSync('/sys/block')) {
    if (!name.startsWith('zram')) continue;
    const used = readFileSync(`/sys/block/${name}/mm_stat`, 'utf8').trim().split(/\s+/)[2];
    bytes += Number(used);
  }
  return bytes;
}
