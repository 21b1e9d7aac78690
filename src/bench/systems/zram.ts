import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { HostChanges } from './host-changes.js';
import { choices, writeKnob } from './knobs.js';
import type { Part } from './part.js';

const CONTROL = '/sys/class/zram-control';
const PAGE = 4096;
/** struct zram_table_entry of drivers/block/zram/zram_drv.h, allocated for every page of the device at once. */
const TABLE_ENTRY_BYTES = 16;

/** Swap on a zram device of its own. zram answers while it is written, so no page stays in the swap cache. */
export class Zram implements Part {
  readonly swaps = true;
  private device = -1;

  constructor(
    private readonly algorithm: string,
    /** Bytes of pages it can take. */
    private readonly bytes: number,
  ) {}

  async start(changes: HostChanges): Promise<void> {
    this.device = changes.addZram();
    const block = `/sys/block/zram${this.device}`;
    // Not through `changes`: what is set here ends with the device.
    await writeKnob(`${block}/comp_algorithm`, this.algorithm);
    await writeKnob(`${block}/disksize`, String(this.bytes));
    await changes.swapOn(`/dev/zram${this.device}`);
  }

  async pools(): Promise<{ pool: number; overhead: number }> {
    if (this.device < 0) return { pool: 0, overhead: 0 };
    // Third field: mem_used_total, the pages of the allocator with what is free in them.
    const [, , used] = readFileSync(`/sys/block/zram${this.device}/mm_stat`, 'utf8').trim().split(/\s+/);
    return { pool: Number(used), overhead: (this.bytes / PAGE) * TABLE_ENTRY_BYTES };
  }

  notes(): string[] {
    const size = `${Math.round(this.bytes / 2 ** 20)} MiB`;
    return [`zram with ${this.algorithm}, disksize ${size}; its table counts as overhead`];
  }
}

/** Why this kernel has no zram with `algorithm`, or null. Makes a device for the moment when there is none to ask. */
export function zramLacks(algorithm: string): string | null {
  if (!existsSync(`${CONTROL}/hot_add`)) return 'zram is not loaded (modprobe zram)';
  const any = readdirSync('/sys/block').find((name) => name.startsWith('zram'));
  const number = any === undefined ? readFileSync(`${CONTROL}/hot_add`, 'utf8').trim() : null;
  const offered = choices(`/sys/block/${any ?? `zram${number}`}/comp_algorithm`);
  if (number !== null) writeFileSync(`${CONTROL}/hot_remove`, number);
  if (offered.includes(algorithm)) return null;
  return `this kernel's zram has no ${algorithm} (it has ${offered.join(', ')})`;
}
