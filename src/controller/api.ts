import type { EncodingCounts, StoreMemory } from '../pager/protocol.js';
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

export interface SandboxSpec {
  /** Template the sandbox started from; without one its pages are never shared with a template. */
  template?: string;
  /** Owner of the memory; sandboxes of different tenants share nothing. Default: the sandbox itself. */
  tenant?: string;
  /** Root processes; their descendants belong to the sandbox too. Exactly one of `pids` and `cgroup`. */
  pids?: number[];
  /** Path below the memory cgroup mount, or absolute. */
  cgroup?: string;
}

export interface TemplateSpec {
  tenant?: string;
  /** Usable by every tenant. */
  public?: boolean;
  /** Running, warmed process to capture. Exactly one of `pid` and `pack`. */
  pid?: number;
  /** Path of a template pack captured before. */
  pack?: string;
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

export interface SandboxStatus {
  id: string;
  template: string | null;
  tenant: string;
  phase: Phase;
  phaseSource: PhaseSource;
  pids: number[];
  /** Present, anonymous and exclusive (pagemap bits 63, not 61, 56) at the last look. */
  ownedBytes: number;
  /** Pages out on our device, in bytes of uncompressed memory, at the last look. */
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
}

export interface Alert {
  /** A code of the errors' table. */
  code: string;
  message: string;
  remedy: string;
}

export interface Status {
  version: string;
  uptimeMs: number;
  enabled: boolean;
  pid: number;
  pager: {
    pid: number;
    device: string;
    /** Bytes of the store: arena, tables and indexes resident in memory. */
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
  /** What an operator must know now. */
  alerts: Alert[];
  /** `warnings`: what of it can not be told. */
  memory: HostMemoryStatus & { warnings: string[] };
  probes: { attached: string[]; warnings: string[]; events: number; dropped: number };
  sandboxes: SandboxStatus[];
  templates: TemplateStatus[];
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
