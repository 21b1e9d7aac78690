import type { Alert, Phase, SandboxStatus, Status, TemplateStatus } from '../../controller/api.js';

/** What an eye on the service is shown: one look at its status, with what changed since the look before. */

/** Bytes, milliseconds, events a second; null: not known. */
export interface SandboxRow {
  id: string;
  template: string | null;
  tenant: string;
  phase: Phase;
  ownedBytes: number;
  outBytes: number;
  storedBytes: number;
  ratio: number | null;
  /** The window that is open. */
  window: { openedAt: number; elapsedMs: number; predictedMs: number | null } | null;
  /** The last one that ended. */
  lastWindow: { openedAt: number; durationMs: number; reason: string; outPages: number } | null;
  windows: number;
  skipped: number;
  /** Of the pages put back for the last tool phase, those seen used, 0 to 1. */
  accuracy: number | null;
  faults: number;
  faultsPerS: number | null;
}

export interface Totals {
  sandboxes: number;
  /** Sandboxes by phase, only those that occur. */
  phases: Partial<Record<Phase, number>>;
  ownedBytes: number;
  outBytes: number;
  storedBytes: number;
  /** The store, and what zswap or zram hold before it. */
  poolBytes: number;
  warmBytes: number;
  baseBytes: number;
  /** What sandboxes and store take (template packs not counted), and what the sandboxes alone would take. */
  withBytes: number;
  withoutBytes: number;
  /** Their quotient, and the same with the template packs charged; null while there is nothing to compare. */
  reduction: number | null;
  reductionCharged: number | null;
  /** Of late, of all templates: used pages over pages put back, and over all that were out and used. */
  accuracy: number | null;
  coverage: number | null;
  faultsPerS: number | null;
}

export interface TemplateRow {
  id: string;
  pages: number;
  residentBytes: number;
  ratio: number | null;
  accuracy: number | null;
  coverage: number | null;
  drift: string | null;
}

export interface Sample {
  /** Unix time in ms. */
  at: number;
  version: string;
  enabled: boolean;
  uptimeMs: number;
  totals: Totals;
  host: Status['memory'];
  encodings: Readonly<Record<string, number>>;
  foreignPages: number;
  standby: boolean;
  alerts: Alert[];
  sandboxes: SandboxRow[];
  templates: TemplateRow[];
}

/** A look and when it was; the next one is compared with it. */
export interface Look {
  status: Status;
  at: number;
}

const quotient = (above: number, below: number): number | null => (below > 0 ? above / below : null);

/** Mean of what is known, weighted. */
function weighted(entries: readonly (readonly [value: number | null, weight: number])[]): number | null {
  let [sum, weights] = [0, 0];
  for (const [value, weight] of entries) {
    if (value === null) continue;
    sum += value * weight;
    weights += weight;
  }
  return quotient(sum, weights);
}

/** Of all templates, by how many pages of each have been judged; one more, so that a new one counts at all. */
const ofTemplates = (
  templates: readonly TemplateStatus[],
  value: (prefetch: TemplateStatus['prefetch']) => number | null,
): number | null =>
  weighted(templates.map(({ prefetch }) => [value(prefetch), 1 + prefetch.usedPages + prefetch.wastedPages]));

function rate(now: number, before: number | undefined, elapsedMs: number): number | null {
  // A counter that went down is another sandbox of the same name.
  if (before === undefined || elapsedMs <= 0 || now < before) return null;
  return ((now - before) * 1000) / elapsedMs;
}

function lastWindow({ lastWindow: last }: SandboxStatus): SandboxRow['lastWindow'] {
  if (last === null) return null;
  const { openedAt, durationMs, reason, pagedOutPages } = last;
  return { openedAt, durationMs, reason, outPages: pagedOutPages };
}

function rowOf(sandbox: SandboxStatus, before: number | undefined, elapsedMs: number): SandboxRow {
  const { id, template, tenant, phase, ownedBytes, storedBytes, ratio, windows } = sandbox;
  return {
    ...{ id, template, tenant, phase, ownedBytes, storedBytes, ratio, windows },
    outBytes: sandbox.swappedBytes,
    window: sandbox.openWindow,
    lastWindow: lastWindow(sandbox),
    skipped: sandbox.skippedWindows,
    accuracy: sandbox.lastAccuracy,
    faults: sandbox.demandFaults,
    faultsPerS: rate(sandbox.demandFaults, before, elapsedMs),
  };
}

function totalsOf({ pager, sandboxes, templates }: Status, rows: readonly SandboxRow[]): Totals {
  const sum = (value: (sandbox: SandboxStatus) => number): number =>
    sandboxes.reduce((total, sandbox) => total + value(sandbox), 0);
  const ownedBytes = sum((sandbox) => sandbox.ownedBytes);
  const outBytes = sum((sandbox) => sandbox.swappedBytes);
  const poolBytes = pager.poolBytes + pager.warmBytes;
  const withBytes = ownedBytes + poolBytes;
  const withoutBytes = ownedBytes + outBytes;
  const rates = rows.flatMap(({ faultsPerS }) => faultsPerS ?? []);
  const phases: Totals['phases'] = {};
  for (const { phase } of sandboxes) phases[phase] = (phases[phase] ?? 0) + 1;
  return {
    ...{ sandboxes: sandboxes.length, phases, ownedBytes, outBytes, withBytes, withoutBytes },
    storedBytes: sum((sandbox) => sandbox.storedBytes),
    poolBytes,
    warmBytes: pager.warmBytes,
    baseBytes: pager.baseBytes,
    reduction: outBytes > 0 ? quotient(withoutBytes, withBytes) : null,
    reductionCharged: outBytes > 0 ? quotient(withoutBytes, withBytes + pager.baseBytes) : null,
    accuracy: ofTemplates(templates, ({ accuracy }) => accuracy),
    coverage: ofTemplates(templates, ({ coverage }) => coverage),
    faultsPerS: rates.length === 0 ? null : rates.reduce((a, b) => a + b, 0),
  };
}

const templateRow = ({ id, pages, residentBytes, compression, prefetch }: TemplateStatus): TemplateRow => ({
  ...{ id, pages, residentBytes, accuracy: prefetch.accuracy, coverage: prefetch.coverage },
  ratio: compression.recentRatio,
  drift: compression.drift?.cause ?? null,
});

/** `before`: the look that rates are counted from. */
export function sampleOf({ status, at }: Look, before?: Look): Sample {
  const elapsedMs = before === undefined ? 0 : at - before.at;
  const faults = new Map(before?.status.sandboxes.map((sandbox) => [sandbox.id, sandbox.demandFaults]));
  const sandboxes = status.sandboxes.map((sandbox) => rowOf(sandbox, faults.get(sandbox.id), elapsedMs));
  const { version, enabled, uptimeMs, alerts, memory, pager, templates } = status;
  return {
    ...{ at, version, enabled, uptimeMs, alerts, sandboxes, host: memory },
    totals: totalsOf(status, sandboxes),
    encodings: { ...pager.encodings },
    foreignPages: pager.foreignSlots,
    standby: pager.standbyPid !== null,
    templates: templates.map(templateRow),
  };
}
