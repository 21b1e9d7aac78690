import type { Sample, SandboxRow } from '../watch/sample.js';
import type { HistoryAnswer, LookEvent, Now, Point, WindowRecord } from './shapes.js';

/** An hour of looks every two seconds, and the windows of some 300 sandboxes meanwhile. */
export const MAX_POINTS = 1800;
export const MAX_WINDOWS = 8000;

function pointOf({ at, totals }: Sample): Point {
  const { ownedBytes: owned, outBytes: out, poolBytes: pool, baseBytes: base } = totals;
  const { accuracy, coverage, faultsPerS } = totals;
  return { at, owned, out, pool, base, accuracy, coverage, faultsPerS };
}

function nowOf(sample: Sample): Now {
  const { at, version, enabled, uptimeMs, totals, host, encodings, alerts, foreignPages, standby } = sample;
  const { availableBytes, totalBytes, somePercent, fullPercent, short } = host;
  return {
    ...{ at, version, enabled, uptimeMs, encodings, alerts, foreignPages, standby, somePercent, fullPercent },
    ...{ waiting: totals.phases.llm_wait ?? 0, available: availableBytes, total: totalBytes, short },
    ...{ reduction: totals.reduction, reductionCharged: totals.reductionCharged },
    ...{ accuracy: totals.accuracy, faultsPerS: totals.faultsPerS },
    sandboxes: sample.sandboxes.map(
      ({ id, template, phase, ratio, windows, accuracy, faultsPerS, ...row }) => ({
        ...{ id, template, phase, ratio, windows, accuracy, faultsPerS },
        ...{ owned: row.ownedBytes, out: row.outBytes, stored: row.storedBytes },
      }),
    ),
    templates: sample.templates.map(({ residentBytes, ...rest }) => ({ ...rest, resident: residentBytes })),
  };
}

/** The windows that a look at a sandbox tells of: the one that is open, and the last that ended. */
function windowsOf({ id: sandbox, window, lastWindow }: SandboxRow): WindowRecord[] {
  const found: WindowRecord[] = [];
  if (lastWindow !== null) {
    const { openedAt, durationMs, reason } = lastWindow;
    found.push({ sandbox, openedAt, endedAt: openedAt + durationMs, predictedMs: null, reason });
  }
  if (window !== null) {
    const { openedAt, predictedMs } = window;
    found.push({ sandbox, openedAt, endedAt: null, predictedMs, reason: null });
  }
  return found;
}

const keyOf = ({ sandbox, openedAt }: WindowRecord): string => `${sandbox} ${openedAt}`;

/** What has been seen, as far back as its bounds allow. Of windows that open and end between two looks one is seen. */
export class History {
  private readonly points: Point[] = [];
  /** By sandbox and time; in the order they were first seen. */
  private readonly windows = new Map<string, WindowRecord>();
  private now: Now | null = null;
  private text: string | undefined;

  /** Takes a look in; returns what has changed. */
  add(sample: Sample): LookEvent {
    const point = pointOf(sample);
    this.points.push(point);
    if (this.points.length > MAX_POINTS) this.points.shift();
    this.now = nowOf(sample);
    this.text = undefined;
    const told = sample.sandboxes.flatMap(windowsOf);
    const windows = told.filter((record) => this.note(record));
    return { point, now: this.now, windows: [...windows, ...this.endUntold(told, sample.at)] };
  }

  /** Windows that were open and are told of no more: their sandbox has gone, or opened and ended another since. */
  private endUntold(told: readonly WindowRecord[], at: number): WindowRecord[] {
    const keys = new Set(told.map(keyOf));
    const ended: WindowRecord[] = [];
    for (const [key, record] of this.windows) {
      if (record.endedAt !== null || keys.has(key)) continue;
      record.endedAt = at;
      ended.push(record);
    }
    return ended;
  }

  /** The whole history as JSON; made once a look, however many ask. */
  json(): string {
    const answer: HistoryAnswer = { points: this.points, windows: [...this.windows.values()], now: this.now };
    return (this.text ??= JSON.stringify(answer));
  }

  /** False when nothing of it is new. */
  private note(record: WindowRecord): boolean {
    const key = keyOf(record);
    const known = this.windows.get(key);
    if (known !== undefined && known.endedAt === record.endedAt) return false;
    record.predictedMs ??= known?.predictedMs ?? null;
    this.windows.set(key, record);
    if (this.windows.size > MAX_WINDOWS) {
      for (const oldest of this.windows.keys()) {
        this.windows.delete(oldest);
        break;
      }
    }
    return true;
  }
}
