import type { EncodingCounts, PagerInfo, StoreMemory } from '../pager/protocol.js';
import type { Override, Policy } from '../policy/policy.js';
import type { Phase } from '../telemetry/phase-detector.js';

/** What the plugin (and through it every host) may ask of the controller. Bytes are bytes, times are milliseconds. */

export const EVENT_TYPES = [
  'llm_request_sent',
  'llm_first_token',
  'llm_response_end',
  'tool_start',
  'tool_end',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export type { Phase };

/** Who says what a sandbox does: its host, which has sent an event; the probes; or nobody. */
export type PhaseSource = 'host' | 'probes' | 'none';

/** `observe`: seen and measured, never paged out. */
export type SandboxMode = 'reclaim' | 'observe';

/** By what a sandbox's memory is sent out: page by page through its processes; through its cgroup too. */
export type Actuator = 'process_madvise' | 'memory.reclaim';

export interface SandboxSpec {
  /** Template the sandbox started from; without one its pages are never shared with a template. */
  template?: string;
  /** Owner of the memory; sandboxes of different tenants share nothing. Default: the sandbox itself. */
  tenant?: string;
  /** Root processes; their descendants belong to the sandbox too. Exactly one of `pids` and `cgroup`. */
  pids?: number[];
  /** Path below the memory cgroup mount, or absolute. */
  cgroup?: string;
  /** See ProcessSpec of src/hosts/plain.ts: adapters may say it, and the API does not take it. */
  nested?: boolean;
  /** Default: `reclaim`. */
  mode?: SandboxMode;
}

export interface TemplateSpec {
  tenant?: string;
  /** Usable by every tenant. */
  public?: boolean;
  /** Running, warmed process to capture. Exactly one of `pid`, `pack` and `memoryFile`. */
  pid?: number;
  /** Path of a template pack captured before. */
  pack?: string;
  /** Path of a snapshot's memory file, which machines map privately. It is not copied, and must not change. */
  memoryFile?: string;
}

export interface HostEvent {
  type: EventType;
  /** When it happened, Unix time in ms. Default: now. */
  at?: number;
  /** How long the host expects the wait to last. */
  expectedMs?: number;
  /** Model endpoint that is asked; how long it makes wait is learnt by it. Of `llm_request_sent`. */
  model?: string;
  /** W3C trace context of the host's own span. */
  traceparent?: string;
  /** Name of the tool that runs next (llm_response_end) or now (tool_start). */
  tool?: string;
}

/**
 * Why a wait is left alone: the host expects it to be short; what was learnt does; it would save less than it costs; the
 * host has memory to spare (mode `pressure`).
 */
export type SkipReason = 'expected_short' | 'predicted_short' | 'too_dear' | 'memory_suffices';

/** Memory of the host, as windows are decided by. */
export interface HostMemoryStatus {
  totalBytes: number;
  availableBytes: number;
  /** Share of the last 10 s in which some or all tasks waited for memory, percent; null: the kernel does not tell. */
  somePercent: number | null;
  fullPercent: number | null;
  /** It counts as short, see `pressure` in the policy. */
  short: boolean;
}

/**
 * Why pages have begun to take more than usual: they no longer match the template where it has pages; they are of a kind
 * that was not there before; they look like their bases and are not (sketches collide).
 */
export type DriftCause = 'template_mismatch' | 'new_content' | 'collision';

export interface Drift {
  cause: DriftCause;
  /** Uncompressed over stored bytes: over some 100 000 pages, and over the last 8 000. */
  usualRatio: number;
  recentRatio: number;
  /** Unix time in ms. */
  since: number;
}

/** What refinement has made of the pages of a template's sandboxes so far. */
export interface CompressionStatus {
  pages: number;
  bytesIn: number;
  bytesOut: number;
  /** bytesIn over bytesOut, and the same of the last 8 000 pages; null before the first. */
  ratio: number | null;
  recentRatio: number | null;
  /** Pages by encoding; null before the first. */
  encodings: EncodingCounts | null;
  drift: Drift | null;
}

/** How well the use of pages is predicted for a template's sandboxes. */
export interface PrefetchStatus {
  /** Tool phases learnt from. */
  phases: number;
  /** Since the start: pages a tool waited for; put back and used; put back in vain. The last two as samples tell. */
  demandFaults: number;
  usedPages: number;
  wastedPages: number;
  /** Of late: used pages over pages put back, and over pages used at all; null while none were. */
  accuracy: number | null;
  coverage: number | null;
}

/** A template whose process is being read. */
export interface CaptureStatus {
  id: string;
  pages: number;
  totalPages: number;
}

export interface TemplateStatus {
  id: string;
  tenant: string | null;
  public: boolean;
  /** Pages addressed, distinct pages kept. */
  pages: number;
  distinctPages: number;
  /** Pages of the pack resident in memory: what "base" charges. */
  residentBytes: number;
  compression: CompressionStatus;
  prefetch: PrefetchStatus;
}

/** A waiting window that is open. */
export interface OpenWindow {
  /** Unix time in ms. */
  openedAt: number;
  elapsedMs: number;
  /** How long it was expected to last when it opened; null: not known. */
  predictedMs: number | null;
}

export interface WindowSummary {
  /** Unix time in ms. */
  openedAt: number;
  reason: 'first_token' | 'tool_start' | 'budget' | 'exit' | 'shutdown';
  durationMs: number;
  pagedOutPages: number;
  refinedPages: number;
  bytesIn: number;
  bytesOut: number;
  prefetchedPages: number;
}

/** What a page-out would have been asked for, of a wait in mode `observe` or in a dry run. */
export interface WouldPageOut {
  /** Unix time in ms. */
  at: number;
  bytes: number;
  /** How long the host expected the wait to last; what was predicted; null: not known. */
  expectedMs: number | null;
  predictedMs: number | null;
}

/** Why something is as it is. */
export interface Decision {
  /** `mode`, `actuator`, `trust domain`, `template`, `phase`, `wait`, `last window` or `prefetch`. */
  what: string;
  /** Null: there is none. */
  value: string | null;
  because: string;
  /** What it was decided by; null: not known. */
  numbers: Record<string, number | string | boolean | null>;
}

export interface Explanation {
  id: string;
  decisions: Decision[];
  /** Overrides of the policy that match it, in the order of the file; `at`: FILE:LINE. */
  overrides: { at: string | null; match: Override['match']; set: Override['set'] }[];
  /** What holds for it, overrides included. */
  policy: Pick<Policy, 'mode' | 'encoding' | 'pageout' | 'prefetch' | 'trust'>;
}

export interface SandboxStatus {
  id: string;
  template: string | null;
  tenant: string;
  /** Adapter that found it; null: a host has registered it. */
  host: string | null;
  mode: SandboxMode;
  /** By what it is paged out; null: it is only observed. */
  actuator: Actuator | null;
  /** Why it is treated so, in the words of its adapter. */
  why: string | null;
  /** What forbids or bounds taking its memory, as far as its adapter can see: see src/hosts/adapter.ts. */
  hazards: readonly string[];
  phase: Phase;
  phaseSource: PhaseSource;
  pids: number[];
  /**
   * Present, anonymous and exclusive (pagemap bits 63, not 61, 56) at the last look. With the actuator memory.reclaim what its
   * cgroup has of anonymous and shared memory.
   */
  ownedBytes: number;
  /**
   * Pages out on our device, in bytes of uncompressed memory, at the last look. With the actuator memory.reclaim all that
   * its cgroup has in swap; the store keeps most of it as nobody's, so that it is not in `storedBytes`.
   */
  swappedBytes: number;
  /** Pages that the store keeps for it: those that are out, and those put back and not written since. */
  storedPages: number;
  /** What these take in the store: each object's bytes shared among the slots that name it. */
  storedBytes: number;
  /** Uncompressed bytes of the pages that the store keeps for it, over storedBytes; null while it keeps none. */
  ratio: number | null;
  windows: number;
  openWindow: OpenWindow | null;
  lastWindow: WindowSummary | null;
  /** Waits that were left alone, and why the last of them was. */
  skippedWindows: number;
  lastSkip: SkipReason | null;
  /** Faults on pages that were out, and pages put back before they were asked for (total; used; not used). */
  demandFaults: number;
  prefetchedPages: number;
  wastedPages: number;
  /** Of the pages put back for the last tool phase, those seen used, 0 to 1; null: none were seen. */
  lastAccuracy: number | null;
  /** Waits that would have had a window, in mode `observe` or in a dry run, and the last of them. */
  observedWindows: number;
  wouldPageOut: WouldPageOut | null;
}

/** A platform whose sandboxes are found. */
export interface HostStatus {
  name: string;
  sandboxes: number;
  /** Found, but registered by a host, or found by another adapter before. */
  claimed: number;
  /** It is told of changes as they happen, not only at intervals. */
  following: boolean;
  /** Why it, or some of its sandboxes, can not be served now. */
  warnings: string[];
}

export interface Alert {
  /** A code of the errors' table. */
  code: string;
  message: string;
  remedy: string;
}

/** Which policy holds. */
export interface PolicyStatus {
  /** Where it was read; null: nowhere. */
  file: string | null;
  /** Unix time in ms. */
  loadedAt: number;
  /** Changes taken over since the start. */
  changes: number;
  /** Why the file as it stands now was refused; the policy before it holds. */
  refused: Alert | null;
  /** Keys that differ in the file and hold when AgentZip is started anew. */
  kept: string[];
}

export interface Status {
  version: string;
  uptimeMs: number;
  enabled: boolean;
  pid: number;
  /** Attributes of its OpenTelemetry resource: whose spans and metrics these are. */
  resource: Record<string, string>;
  pager: {
    pid: number;
    device: string;
    /** Bytes of the store: arena, tables and indexes resident in memory. */
    /** How the kernel reaches it, and why this way. */
    frontEnd: PagerInfo['frontEnd'];
    frontEndReason: string;
    /** What pages that go out come to first, and what of them it keeps in memory of its own. */
    tier: PagerInfo['tier'];
    warmBytes: number;
    warmPages: number;
    poolBytes: number;
    store: StoreMemory;
    baseBytes: number;
    usedSlots: number;
    foreignSlots: number;
    encodings: EncodingCounts;
    reads: number;
    writes: number;
    discards: number;
    /** Slots freed before the kernel said that they are free. */
    freedSlots: number;
    /** Writes that found the store full, so far: the kernel keeps those pages in memory. */
    refusedWrites: number;
    corruptPages: number;
    /** How often its standby has taken over from a pager that died. The counters above begin anew with each. */
    takeovers: number;
    /** The standby that could take over now. */
    standbyPid: number | null;
  };
  policy: PolicyStatus;
  /** Nothing is done, whatever the policy says. */
  dryRun: boolean;
  /** What an operator must know now. */
  alerts: Alert[];
  /** `warnings`: what of it can not be told. */
  memory: HostMemoryStatus & { warnings: string[] };
  probes: {
    attached: string[];
    warnings: string[];
    events: number;
    dropped: number;
    /** What tells which pages a tool waits for, see `detect.faults` in the policy; `none`: the page tables, afterwards. */
    faults: 'reads' | 'probes' | 'none';
    /** Reads of the pager that came too fast to be taken in. */
    lostReads: number;
  };
  /** Adapters that are enabled. */
  hosts: HostStatus[];
  sandboxes: SandboxStatus[];
  templates: TemplateStatus[];
  /** Why templates that could be captured are not. */
  templateWarnings: string[];
  /** Captures that go on now. */
  captures: CaptureStatus[];
}

/** Every method throws AgentZipError for what the host did wrong. */
export interface ControllerApi {
  putTemplate(id: string, spec: TemplateSpec): Promise<TemplateStatus>;
  /** Forgets it, and deletes the pack that was captured for it; one that was given by `pack` stays. */
  deleteTemplate(id: string): Promise<void>;
  putSandbox(id: string, spec: SandboxSpec): Promise<SandboxStatus>;
  getSandbox(id: string): Promise<SandboxStatus>;
  /** Why it is treated as it is. */
  explain(id: string): Promise<Explanation>;
  /** Pages it back in first when its processes still live. */
  deleteSandbox(id: string): Promise<void>;
  /** Returns as soon as the event is taken; work goes on behind it. */
  event(id: string, event: HostEvent): void;
  /** Resolves when every page of the sandbox is present; it stays untouched until `postResume`. */
  prePause(id: string): Promise<void>;
  postResume(id: string): void;
  /** Brings the sandbox's pages back now. */
  wake(id: string): Promise<void>;
  status(): Promise<Status>;
  /** Stops compressing from now on; what is out stays readable. */
  disable(): void;
  /** Pages everything in, removes the device; afterwards the service exits. AZ_DRAIN_MEMORY when it does not fit. */
  drain(): Promise<void>;
}
