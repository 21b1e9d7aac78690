import { setImmediate as nextTurn } from 'node:timers/promises';
import { AgentZipError } from '../errors.js';
import { cgroupMemory } from '../memory/cgroup-reclaim.js';
import { PAGE } from '../native/libc.js';
import type { Reading } from '../otel/metrics.js';
import type { PagerStatus } from '../pager/protocol.js';
import type { LivePolicy } from '../policy/live.js';
import type {
  Alert,
  DriftCause,
  OpenWindow,
  PolicyStatus,
  SandboxStatus,
  Status,
  TemplateStatus,
} from './api.js';
import type { Context } from './context.js';
import type { Sandbox } from './sandboxes/sandbox.js';
import type { Window } from './windows/window.js';

/**
 * Looks at the page tables of sandboxes that nobody has looked at for so long, to be shown. That takes some milliseconds a
 * process: whatever else there is to do, a first token above all, is done in between.
 */
export async function lookToShow(
  { registry, info }: Context,
  sandboxes: readonly Sandbox[],
  maxAgeMs: number,
): Promise<void> {
  for (const sandbox of sandboxes) {
    registry.refresh(sandbox);
    for (const member of [...sandbox.members.values()].filter((each) => each.isOlder(maxAgeMs))) {
      await nextTurn();
      // It may have ended meanwhile, or somebody else may have looked.
      if (sandbox.members.has(member.pid) && member.isOlder(maxAgeMs)) member.peek(info.swapType);
    }
  }
}

/** `pager` says what the sandbox's pages take in the store; what its processes own is as old as the newest look. */
export function sandboxStatus(sandbox: Sandbox, pager: PagerStatus): SandboxStatus {
  let ownedPages = 0;
  let swappedPages = 0;
  for (const { shown } of sandbox.members.values()) {
    ownedPages += shown?.ownedPages ?? 0;
    swappedPages += shown?.swappedPages ?? 0;
  }
  const shared = sandbox.reclaimCgroup === null ? null : cgroupMemory(sandbox.reclaimCgroup);
  const stored = pager.owners.find(({ owner }) => owner === sandbox.id);
  const storedPages = stored?.slots ?? 0;
  const storedBytes = stored?.storedBytes ?? 0;
  return {
    id: sandbox.id,
    template: sandbox.spec.template ?? null,
    tenant: sandbox.spec.tenant ?? sandbox.id,
    host: sandbox.finding?.host ?? null,
    mode: sandbox.mode,
    actuator: sandbox.actuator,
    why: sandbox.finding?.why ?? null,
    hazards: sandbox.finding?.hazards ?? [],
    phase: sandbox.phase,
    phaseSource: sandbox.phaseSource,
    pids: [...sandbox.members.keys()],
    ownedBytes: shared?.presentBytes ?? ownedPages * PAGE,
    swappedBytes: shared?.outBytes ?? swappedPages * PAGE,
    storedPages,
    storedBytes,
    ratio: storedBytes > 0 ? (storedPages * PAGE) / storedBytes : null,
    windows: sandbox.windows,
    openWindow: openWindow(sandbox.window),
    lastWindow: sandbox.lastWindow,
    skippedWindows: sandbox.skippedWindows,
    lastSkip: sandbox.lastSkip,
    demandFaults: sandbox.demandFaults,
    prefetchedPages: sandbox.prefetchedPages,
    wastedPages: sandbox.wastedPages,
    observedWindows: sandbox.observedWindows,
    wouldPageOut: sandbox.wouldPageOut,
    lastAccuracy: sandbox.lastAccuracy,
  };
}

/** The same, with its processes looked at now. */
export async function sandboxNow(
  context: Context,
  sandbox: Sandbox,
  pager: PagerStatus,
): Promise<SandboxStatus> {
  await lookToShow(context, [sandbox], 0);
  return sandboxStatus(sandbox, pager);
}

function openWindow(window: Window | null): OpenWindow | null {
  if (window === null || !window.open) return null;
  return { openedAt: window.openedAt, elapsedMs: window.durationMs, predictedMs: window.predictedMs };
}

const MIB = 2 ** 20;

const CAUSES: Record<DriftCause, string> = {
  template_mismatch: 'they no longer match its pages: template mismatch',
  new_content: 'they are of a kind that was not there before: new content',
  collision: 'what looks like a base for them is none: collision',
};

const alertOf = ({ code, message, remedy }: AgentZipError): Alert => ({ code, message, remedy });

export function policyStatus({ file, loadedAt, generation, refused, kept }: LivePolicy): PolicyStatus {
  return { file, loadedAt, changes: generation, refused: refused && alertOf(refused), kept: [...kept] };
}

/** What is wrong with the policy's file, and what it wants and can not have. */
export function policyAlerts({ refused, kept }: LivePolicy, tierFailure: AgentZipError | null): Alert[] {
  const found = [refused, tierFailure].filter((error) => error !== null);
  if (kept.length > 0) found.push(new AgentZipError('AZ_POLICY_KEPT', { keys: kept.join(', ') }));
  return found.map(alertOf);
}

/** What is wrong with the store or its templates, in the words of the errors' table. */
export function alertsOf(pager: PagerStatus, templates: readonly TemplateStatus[]): Alert[] {
  const found: AgentZipError[] = [];
  if (pager.refusedWrites > 0) {
    const [usedMiB, limitMiB] = [pager.poolBytes, pager.storeLimitBytes].map((bytes) =>
      Math.round(bytes / MIB),
    );
    found.push(new AgentZipError('AZ_STORE_FULL', { refused: pager.refusedWrites, usedMiB, limitMiB }));
  }
  if (pager.lastCorrupt !== null) {
    const { slot, owner } = pager.lastCorrupt;
    const sandbox = owner === null ? 'no sandbox' : `sandbox ${owner}`;
    found.push(new AgentZipError('AZ_STORE_CORRUPT', { pages: pager.corruptPages, slot, sandbox }));
  }
  for (const { id, compression } of templates) {
    if (compression.drift === null) continue;
    const { cause, usualRatio, recentRatio } = compression.drift;
    const [usual, recent] = [usualRatio, recentRatio].map((ratio) => ratio.toFixed(1));
    found.push(new AgentZipError('AZ_RATIO_DRIFT', { template: id, recent, usual, cause: CAUSES[cause] }));
  }
  return found.map(alertOf);
}

const sum = (sandboxes: readonly SandboxStatus[], value: (sandbox: SandboxStatus) => number): number =>
  sandboxes.reduce((total, sandbox) => total + value(sandbox), 0);

/** The values of the metrics that a status holds. */
export function readingOf(status: Status, droppedSpans: number): Reading {
  const { pager, probes, sandboxes, templates } = status;
  return {
    sandboxes: sandboxes.length,
    owned: sum(sandboxes, ({ ownedBytes }) => ownedBytes),
    swapped: sum(sandboxes, ({ swappedBytes }) => swappedBytes),
    stored: sum(sandboxes, ({ storedBytes }) => storedBytes),
    pool: pager.poolBytes + pager.warmBytes,
    base: pager.baseBytes,
    foreign: pager.foreignSlots,
    pages: { ...pager.encodings },
    templates: templates.map(({ id, compression, prefetch }) => ({
      ...{ id, ratio: compression.recentRatio, accuracy: prefetch.accuracy, coverage: prefetch.coverage },
      pages: { ...compression.encodings },
    })),
    demandFaults: sum(sandboxes, ({ demandFaults }) => demandFaults),
    prefetched: sum(sandboxes, ({ prefetchedPages }) => prefetchedPages),
    wasted: sum(sandboxes, ({ wastedPages }) => wastedPages),
    probeEvents: probes.events,
    probeDrops: probes.dropped,
    refused: pager.refusedWrites,
    freed: pager.freedSlots,
    corrupt: pager.corruptPages,
    takeovers: pager.takeovers,
    droppedSpans,
  };
}
