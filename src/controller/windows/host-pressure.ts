import { AgentZipError, explain } from '../../errors.js';
import { readHostMemory, readPressure, type HostMemory, type Pressure } from '../../memory/pressure.js';
import type { Policy } from '../../policy/policy.js';
import type { HostMemoryStatus } from '../api.js';

const POLL_MS = 1000;
/**
 * Tasks that wait for memory tell of a short host only while less of it than this is available: a sandbox at its own
 * limit waits too, and so does a tool whose pages we put back.
 */
const STALLS_COUNT_BELOW_PERCENT = 50;
/** What is short stays so until so much more is available, and so much less is waited for: a level, not a flicker. */
const RELIEF = 1.25;

/** What the kernel says; replaced by tests. */
export interface HostReader {
  memory(): HostMemory;
  pressure(): Pressure | { missing: string };
}
const KERNEL: HostReader = { memory: readHostMemory, pressure: readPressure };

type Thresholds = Policy['pressure'];

/** Is the host short of memory? `before`: it was at the last look. Pure. */
export function isShort(
  { availableBytes, totalBytes }: HostMemory,
  pressure: Pressure | null,
  { availablePercent, somePercent, fullPercent }: Thresholds,
  before: boolean,
): boolean {
  const available = (100 * availableBytes) / totalBytes;
  const ease = before ? RELIEF : 1;
  if (available < availablePercent * ease) return true;
  if (pressure === null || available >= STALLS_COUNT_BELOW_PERCENT) return false;
  return pressure.some.avg10 > somePercent / ease || pressure.full.avg10 > fullPercent / ease;
}

/** Watches how much memory the host has, once a second. */
export class HostPressure {
  /** Is called when the host becomes short of memory. */
  onShort: () => void = () => {};
  readonly warnings: string[] = [];
  private readonly timer: NodeJS.Timeout;
  private memory!: HostMemory;
  private pressure: Pressure | null = null;
  private isShort = false;

  constructor(
    private readonly thresholds: Thresholds,
    private readonly reader: HostReader = KERNEL,
  ) {
    this.look();
    this.timer = setInterval(() => this.look(), POLL_MS);
    this.timer.unref();
  }

  get short(): boolean {
    return this.isShort;
  }

  status(): HostMemoryStatus {
    const { some, full } = this.pressure ?? {};
    return {
      ...this.memory,
      somePercent: some?.avg10 ?? null,
      fullPercent: full?.avg10 ?? null,
      short: this.isShort,
    };
  }

  close(): void {
    clearInterval(this.timer);
  }

  private look(): void {
    this.memory = this.reader.memory();
    const pressure = this.reader.pressure();
    if ('missing' in pressure) this.miss(pressure.missing);
    this.pressure = 'missing' in pressure ? null : pressure;
    const before = this.isShort;
    this.isShort = isShort(this.memory, this.pressure, this.thresholds, before);
    if (this.isShort && !before) this.onShort();
  }

  /** Once is enough. */
  private miss(reason: string): void {
    if (this.warnings.length === 0)
      this.warnings.push(explain(new AgentZipError('AZ_PSI_MISSING', { reason })));
  }
}
