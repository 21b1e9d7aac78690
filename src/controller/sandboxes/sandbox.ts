import type { Policy } from '../../policy/policy.js';
import type { Membership } from '../../hosts/plain.js';
import { byteTable } from '../../memory/page-table.js';
import { isAlive } from '../../memory/process.js';
import type {
  Actuator,
  EventType,
  HostEvent,
  Phase,
  PhaseSource,
  SandboxMode,
  SandboxSpec,
  SkipReason,
  WindowSummary,
  WouldPageOut,
} from '../api.js';
import type { Prospect } from '../windows/admission.js';
import type { Member } from './member.js';
import type { EndReason } from '../phases.js';
import type { PhaseCounts } from '../prefetch/prefetch-score.js';
import { RecentTools } from '../prefetch/recent-tools.js';
import { Window } from '../windows/window.js';

/** What was made of a wait. */
export interface Judgement {
  /** Unix time in ms. */
  at: number;
  /** Null: it is used. */
  reason: SkipReason | null;
  prospect: Prospect;
  medianMs: number | null;
  leastMs: number;
  memoryShort: boolean;
  /** A window opened, and was not only thought of. */
  acted: boolean;
}

/** One job after the other, in the order they were asked for; a job that fails does not stop the next. */
class Serial {
  private last: Promise<unknown> = Promise.resolve();

  run<T>(job: () => Promise<T>): Promise<T> {
    const result = this.last.then(job);
    this.last = result.catch(() => {});
    return result;
  }
}

/** What the adapter that found a sandbox says of it. */
export interface Finding {
  readonly host: string;
  readonly why: string;
  readonly hazards: readonly string[];
  /** Memory file that is, or is being made, its template. */
  readonly memoryFile?: string;
  /** See FoundSandbox. */
  readonly reclaimCgroup?: string;
}

/** One registered sandbox. Its name is its owner name at the pager. */
export class Sandbox {
  readonly members = new Map<number, Member>();
  /** Everything that moves pages of the sandbox or claims them. */
  readonly work = new Serial();
  phase: Phase = 'unknown';
  phaseSource: PhaseSource = 'none';
  mode: SandboxMode;
  window: Window | null = null;
  /** Aborts a prefetch that is going on. */
  private prefetching = new AbortController();
  /** The wait that is over has had its prefetch. */
  prefetched = true;
  /** Its pages have been looked at for the prefetch. */
  prepared = false;
  /** Time from the first token until the prefetch must begin; aborts when it begins early. */
  private lull = new AbortController();
  /** When the model began to stream, Unix ms; null when it does not. */
  private streamingSince: number | null = null;
  /** The request that the model has not begun to answer, and when it was sent, Unix ms; null when it does not wait. */
  waiting: { event: HostEvent; since: number } | null = null;
  /** How long the last prefetch took, ms. */
  lastPrefetchMs = 0;
  /** How long the page-outs of the last window took, ms; null: it has been accounted for, or there was none. */
  lastPageoutMs: number | null = null;
  /** Pages put back for the last tool phase that were seen used, of all that were; null: none were. */
  lastAccuracy: number | null = null;
  /** Between pre-pause and post-resume nothing is paged out. */
  paused = false;
  /** The pager holds its name, and maybe slots of it. */
  knownToPager = false;
  /** Slots claimed as nobody else's. Some may be free by now, or somebody else's: the pager knows. */
  readonly soleSlots = byteTable();
  /** Processes forked so far, as the probes told. */
  forks = 0;
  /** A living process has left it, so that pages of it may be where nobody looks. */
  escaped = false;
  windows = 0;
  lastWindow: WindowSummary | null = null;
  /** Waits that were left alone, why the last of them was, and how many since the last window. */
  skippedWindows = 0;
  lastSkip: SkipReason | null = null;
  skippedInRow = 0;
  /** The last wait that began, and what it was judged by; null: none has begun. */
  judged: Judgement | null = null;
  observedWindows = 0;
  wouldPageOut: WouldPageOut | null = null;
  readonly tools = new RecentTools();
  /** Pages that may still be put back before the next wait. */
  prefetchRoom = 0;
  demandFaults = 0;
  prefetchedPages = 0;
  wastedPages = 0;

  constructor(
    readonly id: string,
    readonly spec: Readonly<SandboxSpec>,
    readonly membership: Membership,
    /** Trust domain of its pages. */
    readonly domain: string,
    /** Stands for it in probe events and in the table of slots; 1–65535. */
    readonly tag: number,
    /** Null: a host has registered it. */
    public finding: Finding | null = null,
    /** `trust.domain` when it was registered. */
    readonly rule: Policy['trust']['domain'] = 'tenant-template',
  ) {
    this.mode = spec.mode ?? 'reclaim';
  }

  /** Cgroup by which its memory goes out; null: through its processes alone. */
  get reclaimCgroup(): string | null {
    return this.mode === 'reclaim' ? (this.finding?.reclaimCgroup ?? null) : null;
  }

  /** By what it is paged out; null: it is only observed. */
  get actuator(): Actuator | null {
    if (this.mode === 'observe') return null;
    return this.reclaimCgroup === null ? 'process_madvise' : 'memory.reclaim';
  }

  /** Pids found before that still are the same processes. */
  livePids(): number[] {
    return [...this.members.values()].filter((member) => isAlive(member.process)).map((member) => member.pid);
  }

  /** `predictedMs`: see Window. */
  openWindow(event: HostEvent, predictedMs: number | null): Window {
    this.prefetching.abort();
    this.prefetching = new AbortController();
    this.lull.abort();
    this.lull = new AbortController();
    this.streamingSince = null;
    this.prefetched = false;
    this.prepared = false;
    this.windows++;
    this.window = new Window(event, predictedMs);
    return this.window;
  }

  /** A wait is left alone. */
  skipWindow(reason: SkipReason): void {
    this.skippedWindows++;
    this.skippedInRow++;
    this.lastSkip = reason;
  }

  /** False when no window was open; a prefetch that waits for its time then begins. */
  endWindow(reason: EndReason): boolean {
    if (this.window === null || !this.window.open) {
      this.lull.abort();
      return false;
    }
    this.window.end(reason);
    return true;
  }

  /** Notes what an event says of the wait for the model; returns the wait that it ends, null when it ends none. */
  waited(event: HostEvent, ends: boolean): { ms: number; model: string | undefined } | null {
    const { waiting } = this;
    if (event.type === 'llm_request_sent') this.waiting ??= { event, since: Date.now() };
    else this.waiting = null;
    if (waiting === null || !ends) return null;
    return { ms: Date.now() - waiting.since, model: waiting.event.model };
  }

  /** Notes what an event says of the model's stream; returns how long it was when that is known now, ms. */
  streamed(type: EventType): number | null {
    const since = this.streamingSince;
    this.streamingSince = type === 'llm_first_token' ? (since ?? Date.now()) : null;
    return since === null || this.streamingSince !== null ? null : Date.now() - since;
  }

  /** The model has begun to answer, and has not ended. */
  get streaming(): boolean {
    return this.streamingSince !== null;
  }

  /** Aborts when the prefetch must not wait any longer. */
  get lullSignal(): AbortSignal {
    return this.lull.signal;
  }

  /** Aborts when the next wait begins. */
  get prefetchSignal(): AbortSignal {
    return this.prefetching.signal;
  }

  /** Takes in how a tool phase went, of all its processes. */
  count({ news, used, wasted }: PhaseCounts): void {
    this.demandFaults += news;
    this.wastedPages += Math.round(wasted);
    this.lastAccuracy = used + wasted === 0 ? null : used / (used + wasted);
  }
}
