import type { SandboxStatus, Status, TemplateStatus } from '../../src/controller/api.js';
import { MemoryController, sandboxStatus } from './memory-controller.js';

const MIB = 1 << 20;
/** A turn of each sandbox: waits, then runs a tool. */
const WAIT_MS = 12_000;
const TURN_MS = 18_000;

/** Sandbox number `index` at `atMs` of a played run: waits and tools in turn, each sandbox a little later. */
function played(index: number, atMs: number, startedAt: number): SandboxStatus {
  const age = Math.max(0, atMs - startedAt + TURN_MS + ((index * 2_713) % TURN_MS));
  const [turn, inTurn] = [Math.floor(age / TURN_MS), age % TURN_MS];
  const waiting = inTurn < WAIT_MS;
  const openedAt = atMs - inTurn;
  const size = (20 + (index % 7) * 6) * MIB;
  const outShare = waiting
    ? Math.min(0.95, inTurn / 2_000)
    : Math.max(0.3, 0.95 - (inTurn - WAIT_MS) / 5_000);
  const swappedBytes = Math.floor((size * outShare) / 4096) * 4096;
  const storedBytes = Math.floor(swappedBytes / (6 + (index % 9)));
  return {
    ...sandboxStatus(`box-${index + 1}`, {
      template: index % 3 === 0 ? 'node-20' : 'python-3.11',
      tenant: 'acme',
    }),
    phase: waiting ? 'llm_wait' : inTurn < WAIT_MS + 1_000 ? 'llm_streaming' : 'tool_running',
    ...{ ownedBytes: size - swappedBytes, swappedBytes, storedBytes, storedPages: swappedBytes / 4096 },
    ratio: storedBytes > 0 ? swappedBytes / storedBytes : null,
    windows: turn + 1,
    openWindow: waiting ? { openedAt, elapsedMs: inTurn, predictedMs: 10_000 } : null,
    lastWindow: {
      ...{ openedAt: waiting ? openedAt - TURN_MS : openedAt, durationMs: WAIT_MS, reason: 'first_token' },
      ...{ pagedOutPages: size / 4096, refinedPages: size / 4096, bytesIn: size, bytesOut: storedBytes },
      prefetchedPages: 1000,
    },
    ...{
      demandFaults: turn * 40 * (index % 4),
      prefetchedPages: turn * 1000,
      wastedPages: turn * (index % 5) * 50,
      lastAccuracy: 1 - (index % 5) * 0.05,
    },
  };
}

const template = (base: TemplateStatus, atMs: number): TemplateStatus => ({
  ...base,
  compression: { ...base.compression, recentRatio: 8.4, ratio: 8.1 },
  prefetch: {
    ...base.prefetch,
    usedPages: 90,
    wastedPages: 10,
    accuracy: 0.86 + 0.08 * Math.sin(atMs / 40_000),
    coverage: 0.74,
  },
});

/** A controller whose sandboxes live through waits and tools by the clock. */
export class PlayedController extends MemoryController {
  startedAt = Date.now();
  /** What the played clock shows. */
  clock = (): number => Date.now();
  alerts: Status['alerts'] = [];

  constructor(public count: number) {
    super();
    this.templates.set('python-3.11', {});
    this.templates.set('node-20', {});
  }

  override async status(): Promise<Status> {
    const atMs = this.clock();
    const status = await super.status();
    const sandboxes = Array.from({ length: this.count }, (_, index) => played(index, atMs, this.startedAt));
    const pages = sandboxes.reduce((sum, { storedPages }) => sum + storedPages, 0);
    const stored = sandboxes.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
    const share = (part: number): number => Math.round(pages * part);
    return {
      ...status,
      ...{ uptimeMs: 60_000, alerts: this.alerts, sandboxes },
      memory: {
        ...status.memory,
        totalBytes: 64 * 2 ** 30,
        availableBytes: 40 * 2 ** 30,
        somePercent: 1.2,
        fullPercent: 0.3,
      },
      pager: {
        ...status.pager,
        ...{ poolBytes: stored + 24 * MIB, baseBytes: 18 * MIB, usedSlots: pages, standbyPid: 2 },
        encodings: {
          ...{ same: share(0.14), duplicate: share(0.21), template: share(0.27), delta: share(0.17) },
          ...{ sparse: share(0.06), dictionary: share(0.08), clustered: share(0.03), zstd: share(0.02) },
          ...{ raw: share(0.005), staged: share(0.015) },
        },
      },
      templates: status.templates.map((base) => template(base, atMs)),
    };
  }
}
