import { PrefetchScore } from '../../src/controller/prefetch/prefetch-score.js';
import { Compression } from '../../src/controller/templates/compression.js';
import type {
  ControllerApi,
  Explanation,
  HostEvent,
  SandboxSpec,
  SandboxStatus,
  Status,
  TemplateSpec,
  TemplateStatus,
} from '../../src/controller/api.js';
import { DEFAULT_POLICY } from '../../src/policy/defaults.js';
import { AgentZipError } from '../../src/errors.js';

export const sandboxStatus = (id: string, spec: SandboxSpec): SandboxStatus => ({
  ...{
    id,
    template: spec.template ?? null,
    tenant: spec.tenant ?? id,
    phaseSource: 'none',
    phase: 'idle',
    pids: spec.pids ?? [],
  },
  ...{ host: null, mode: spec.mode ?? 'reclaim', actuator: 'process_madvise', why: null, hazards: [] },
  ...{
    ownedBytes: 4 << 20,
    swappedBytes: 40 << 20,
    storedPages: 10 << 10,
    storedBytes: 4 << 20,
    ratio: 10,
    windows: 2,
  },
  ...{
    openWindow: null,
    lastWindow: null,
    skippedWindows: 1,
    lastSkip: 'too_dear',
    demandFaults: 3,
    prefetchedPages: 20,
    wastedPages: 1,
    observedWindows: 1,
    wouldPageOut: { at: 1, bytes: 4096, expectedMs: null, predictedMs: 10 },
    lastAccuracy: 0.9,
  },
});

/** The controller's contract without a kernel: what the server and its client are tested against. */
export class MemoryController implements ControllerApi {
  readonly sandboxes = new Map<string, SandboxSpec>();
  readonly templates = new Map<string, TemplateSpec>();
  /** Calls that change something, in order. */
  readonly calls: string[] = [];
  readonly events: [id: string, event: HostEvent][] = [];
  /** What `drain` does; replaced by tests. */
  onDrain: () => Promise<void> = async () => {};
  enabled = true;
  /** What `putTemplate` waits for, with what the status then says of captures; replaced by tests. */
  onCapture: (captures: Status['captures']) => Promise<void> = async () => {};
  private readonly captures: Status['captures'] = [];

  async putTemplate(id: string, spec: TemplateSpec): Promise<TemplateStatus> {
    await this.onCapture(this.captures);
    this.templates.set(id, spec);
    this.calls.push(`putTemplate ${id}`);
    return this.describe(id, spec);
  }

  async deleteTemplate(id: string): Promise<void> {
    if (!this.templates.delete(id)) throw new AgentZipError('AZ_UNKNOWN_TEMPLATE', { id });
    this.calls.push(`deleteTemplate ${id}`);
  }

  async putSandbox(id: string, spec: SandboxSpec): Promise<SandboxStatus> {
    if (spec.template !== undefined && !this.templates.has(spec.template)) {
      throw new AgentZipError('AZ_UNKNOWN_TEMPLATE', { id: spec.template });
    }
    this.sandboxes.set(id, spec);
    this.calls.push(`putSandbox ${id}`);
    return sandboxStatus(id, spec);
  }

  async getSandbox(id: string): Promise<SandboxStatus> {
    return sandboxStatus(id, this.known(id));
  }

  async explain(id: string): Promise<Explanation> {
    this.known(id);
    const { mode, encoding, pageout, prefetch, trust } = DEFAULT_POLICY;
    return {
      id,
      decisions: [
        { what: 'mode', value: 'observe', because: 'override at /p:3', numbers: { at: 1, lowMs: null } },
      ],
      overrides: [{ at: '/p:3', match: { sandbox: '*' }, set: { mode: 'observe', pageout: { retries: 1 } } }],
      policy: { mode, encoding, pageout, prefetch, trust },
    };
  }

  async deleteSandbox(id: string): Promise<void> {
    this.known(id);
    this.sandboxes.delete(id);
    this.calls.push(`deleteSandbox ${id}`);
  }

  event(id: string, event: HostEvent): void {
    this.known(id);
    this.events.push([id, event]);
  }

  async prePause(id: string): Promise<void> {
    this.known(id);
    this.calls.push(`prePause ${id}`);
  }

  postResume(id: string): void {
    this.known(id);
    this.calls.push(`postResume ${id}`);
  }

  async wake(id: string): Promise<void> {
    this.known(id);
    this.calls.push(`wake ${id}`);
  }

  async status(): Promise<Status> {
    return {
      ...{ version: '0.0.0', uptimeMs: 1000, enabled: this.enabled, pid: process.pid },
      resource: { 'service.name': 'agentzip', 'service.instance.id': 'i-1', 'k8s.pod.name': 'p' },
      pager: {
        ...{ frontEnd: 'fuse-loop', frontEndReason: 'played', tier: 'direct', warmBytes: 0, warmPages: 0 },
        ...{ pid: 1, device: '/dev/loop9', poolBytes: 5 << 20, baseBytes: 1 << 20, usedSlots: 10 },
        ...{
          foreignSlots: 1,
          reads: 2,
          writes: 3,
          discards: 4,
          freedSlots: 0,
          refusedWrites: 0,
          corruptPages: 0,
        },
        ...{ takeovers: 0, standbyPid: null },
        store: {
          ...{ arenaHeldBytes: 6, arenaUsedBytes: 5, tableHeldBytes: 4, tableUsedBytes: 3 },
          ...{ indexHeldBytes: 2, indexUsedBytes: 1 },
        },
        encodings: {
          ...{ same: 1, duplicate: 2, template: 3, delta: 4, sparse: 0, dictionary: 0, clustered: 0 },
          ...{ zstd: 0, raw: 0, staged: 0 },
        },
      },
      policy: { file: '/p', loadedAt: 1, changes: 0, refused: null, kept: [] },
      dryRun: false,
      alerts: [{ code: 'AZ_STORE_FULL', message: 'the store was full', remedy: 'raise it' }],
      memory: {
        ...{ totalBytes: 8 << 20, availableBytes: 4 << 20, somePercent: 0, fullPercent: null, short: false },
        warnings: [],
      },
      probes: {
        attached: ['page_fault_user'],
        warnings: ['no exec events'],
        events: 7,
        dropped: 0,
        faults: 'reads',
        lostReads: 0,
      },
      hosts: [{ name: 'cgroup', sandboxes: 0, claimed: 0, following: true, warnings: [] }],
      sandboxes: [...this.sandboxes].map(([id, spec]) => sandboxStatus(id, spec)),
      templateWarnings: [],
      templates: [...this.templates].map(([id, spec]) => this.describe(id, spec)),
      captures: [...this.captures],
    };
  }

  disable(): void {
    this.enabled = false;
    this.calls.push('disable');
  }

  async drain(): Promise<void> {
    this.calls.push('drain');
    await this.onDrain();
  }

  private known(id: string): SandboxSpec {
    const spec = this.sandboxes.get(id);
    if (!spec) throw new AgentZipError('AZ_UNKNOWN_SANDBOX', { id });
    return spec;
  }

  private describe(id: string, { tenant, public: open }: TemplateSpec): TemplateStatus {
    return {
      ...{ id, tenant: tenant ?? null, public: open ?? false },
      ...{ pages: 100, distinctPages: 60, residentBytes: 4096 },
      compression: new Compression().status(),
      prefetch: PrefetchScore.status([]),
    };
  }
}
