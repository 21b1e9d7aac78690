import { describe, expect, it } from 'vitest';
import { Compression } from '../src/controller/templates/compression.js';
import type { RefineResult } from '../src/pager/protocol.js';

const PAGE = 4096;
const NONE = {
  ...{ same: 0, duplicate: 0, template: 0, delta: 0, sparse: 0, dictionary: 0, clustered: 0 },
  ...{ zstd: 0, raw: 0, staged: 0 },
};

/** A window of 1000 pages: so many without a base, of which so many misfit, and what a delta takes. */
function window({ alone = 200, misfits = 20, deltaBytes = 200, aloneBytes = 1200 } = {}): RefineResult {
  const pages = 1000;
  const deltas = { pages: pages - alone, bytes: (pages - alone) * deltaBytes };
  return {
    ...{ pages, bytesIn: pages * PAGE, bytesOut: deltas.bytes + alone * aloneBytes, cpuMs: 1 },
    ...{ misfits, deltas, remaining: 0 },
    encodings: { ...NONE, delta: deltas.pages, zstd: alone },
    times: { startedAtMs: null, refinedAtMs: null, endedAtMs: null },
  };
}

function settled(windows = 200): Compression {
  const compression = new Compression();
  for (let i = 0; i < windows; i++) expect(compression.note(window())).toBeNull();
  return compression;
}

/** Windows of another kind until drift is told; null when twenty do not make it. */
function until(compression: Compression, change: Parameters<typeof window>[0]) {
  for (let i = 0; i < 20; i++) {
    const drift = compression.note(window(change));
    if (drift !== null) return drift;
  }
  return null;
}

describe('the compression of a template', () => {
  it('is told over all pages and over the last ones', () => {
    const compression = settled();
    const { pages, ratio, recentRatio, encodings, drift } = compression.status();
    expect(pages).toBe(200_000);
    expect(ratio).toBeCloseTo(PAGE / 400, 5);
    expect(recentRatio).toBeCloseTo(PAGE / 400, 5);
    expect(encodings).toEqual({ ...NONE, delta: 160_000, zstd: 40_000 });
    expect(drift).toBeNull();
  });

  it('is unknown before the first page', () => {
    const compression = new Compression();
    expect(compression.note({ ...window(), pages: 0, bytesIn: 0, bytesOut: 0 })).toBeNull();
    expect(compression.status()).toMatchObject({ pages: 0, ratio: null, recentRatio: null, encodings: null });
  });

  it.each([
    ['template_mismatch', { alone: 700, misfits: 520 }],
    ['new_content', { alone: 700, misfits: 20 }],
    ['collision', { deltaBytes: 900 }],
  ] as const)('drifts by %s, once, and says how far', (cause, change) => {
    const compression = settled();
    const drift = until(compression, change);
    expect(drift).toMatchObject({ cause });
    expect(drift!.usualRatio / (PAGE / 400)).toBeGreaterThan(0.9);
    expect(drift!.recentRatio).toBeLessThan(drift!.usualRatio / 1.5);
    expect(Date.now() - drift!.since).toBeLessThan(5000);
    expect(compression.note(window(change))).toBeNull();
    expect(compression.status().drift).toEqual(drift);
  });

  it('drifts no longer when pages are as they used to be, or this is how they are now', () => {
    const change = { alone: 700, misfits: 20 };
    const back = settled();
    until(back, change);
    for (let i = 0; i < 30; i++) back.note(window());
    expect(back.status().drift).toBeNull();
    const stays = settled();
    until(stays, change);
    for (let i = 0; i < 600; i++) stays.note(window(change));
    expect(stays.status().drift).toBeNull();
  });

  it('drifts from next to nothing by a finite number', () => {
    const compression = new Compression();
    const nothing = window({ alone: 0, deltaBytes: 0 });
    for (let i = 0; i < 100; i++) expect(compression.note(nothing)).toBeNull();
    expect(until(compression, { alone: 0, deltaBytes: 60 })).toBeNull();
    const drift = until(compression, { alone: 0, deltaBytes: 900 });
    expect(drift).toMatchObject({ cause: 'collision', usualRatio: PAGE / 64 });
  });

  it('does not drift by a little, nor before it is known what is usual', () => {
    expect(until(settled(), { alone: 260 })).toBeNull();
    expect(until(settled(5), { alone: 900 })).toBeNull();
  });
});
