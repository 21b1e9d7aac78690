import { readFileSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { memInfo } from '../../memory/swap.js';
import type { HostChanges } from './host-changes.js';
import { readKnob } from './knobs.js';
import type { Part } from './part.js';

const PARAMETERS = '/sys/module/zswap/parameters';
/** Best first; the kernel takes those it has as a crypto algorithm. */
const COMPRESSORS = ['zstd', 'lz4', 'lzo-rle', 'lzo'];
/** So much that nothing is written back to disk, which would be free here: only memory is charged. */
const MAX_POOL_PERCENT = '90';
const PAGE = 4096;
/** struct zswap_entry of mm/zswap.c, one a page, beside the pool. */
const ENTRY_BYTES = 56;

/** zswap in front of a swap file. */
export class Zswap implements Part {
  readonly swaps = true;
  private compressor = '';
  private before = { writtenBack: 0, toDisk: 0 };

  constructor(
    /** On a file system that can hold a swap file. */
    private readonly file: string,
    private readonly bytes: number,
  ) {}

  async start(changes: HostChanges): Promise<void> {
    this.before = diskWrites();
    await changes.addFile(this.file, this.bytes);
    this.compressor = await chooseCompressor(changes);
    await changes.setKnob(`${PARAMETERS}/max_pool_percent`, MAX_POOL_PERCENT);
    // Absent before 6.8, which has no shrinker.
    await changes.setKnob(`${PARAMETERS}/shrinker_enabled`, 'N');
    await changes.setKnob(`${PARAMETERS}/enabled`, 'Y');
    await changes.swapOn(this.file);
  }

  async pools(): Promise<{ pool: number }> {
    const text = readFileSync('/proc/meminfo', 'utf8');
    return { pool: memInfo('Zswap', text) + (memInfo('Zswapped', text) / PAGE) * ENTRY_BYTES };
  }

  notes(): string[] {
    const now = diskWrites();
    const writtenBack = now.writtenBack - this.before.writtenBack;
    const toDisk = now.toDisk - this.before.toDisk;
    return [
      `zswap with ${this.compressor}, max_pool_percent ${MAX_POOL_PERCENT}, no shrinker; ` +
        `${writtenBack} pages written back and ${toDisk} refused by it went to disk, which is not charged`,
    ];
  }
}

/** Why this host can not run zswap, or null. */
export function zswapLacks(): string | null {
  const enabled = readKnob(`${PARAMETERS}/enabled`);
  if (enabled === null) return 'this kernel has no zswap';
  if (enabled === 'Y') return 'zswap is in use already';
  return null;
}

async function chooseCompressor(changes: HostChanges): Promise<string> {
  const knob = `${PARAMETERS}/compressor`;
  for (const name of COMPRESSORS) {
    try {
      if (await changes.setKnob(knob, name)) return name;
    } catch (error) {
      if (!(error instanceof AgentZipError)) throw error; // not in this kernel (ENOENT, EINVAL): the next one
    }
  }
  throw new AgentZipError('AZ_WORKLOAD_FAILED', {
    reason: `zswap takes none of ${COMPRESSORS.join(', ')}`,
    log: knob,
  });
}

/** Pages since boot, after /proc/vmstat. Those that zswap takes are no writes of the swap area. */
function diskWrites(): { writtenBack: number; toDisk: number } {
  const text = readFileSync('/proc/vmstat', 'utf8');
  const count = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? '0');
  const writtenBack = count('zswpwb');
  return { writtenBack, toDisk: Math.max(0, count('pswpout') - writtenBack) };
}
