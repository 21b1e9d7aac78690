import { memoryCgroupId } from '../memory/cgroup.js';
import type { Policy } from '../policy/policy.js';
import { Endpoints } from '../telemetry/endpoints.js';
import { PhaseWatch } from '../telemetry/phase-watch.js';
import type { Probes } from '../telemetry/probes.js';
import type { EventType, Phase } from './api.js';
import type { Registry } from './registry.js';
import type { Sandbox } from './sandbox.js';

export interface DetectionOptions {
  policy: Policy['detect'];
  probes: Probes;
  registry: Registry;
  poll: () => void;
  /** A sandbox whose host says nothing has gone over to another phase. */
  onPhase: (sandbox: Sandbox, phase: Phase) => void;
}

/** The event that a host would have sent. `unknown` has none: {@link Detection} ends what is going on. */
export function eventOf(before: Phase, now: Exclude<Phase, 'unknown'>): EventType {
  if (now === 'llm_wait') return 'llm_request_sent';
  if (now === 'llm_streaming') return 'llm_first_token';
  if (now === 'tool_running') return 'tool_start';
  return before === 'tool_running' ? 'tool_end' : 'llm_response_end';
}

/** Finds out what sandboxes do whose hosts do not say it. */
export class Detection {
  /** What is given to the probes at the start; the limits are read as they are used. */
  static readonly COPIED: readonly string[] = [
    ...['detect.enabled', 'detect.endpoints', 'detect.refreshMs', 'detect.inbound', 'detect.inboundExec'],
  ];
  /** Of all sandboxes that are not their hosts'; null when the policy or the probes say no. */
  readonly watch: PhaseWatch | null;
  private readonly endpoints: Endpoints;
  private readonly probes: Probes;
  /** Tag → inode of the cgroup's folder, of sandboxes that may be entered. */
  private readonly cgroups = new Map<number, bigint>();
  private readonly enterable: boolean;
  private readonly inbound: readonly number[] = [];

  constructor(options: DetectionOptions) {
    const { policy, probes, registry, poll, onPhase } = options;
    this.probes = probes;
    this.enterable = policy.inboundExec;
    this.endpoints = new Endpoints({
      entries: policy.endpoints,
      refreshMs: policy.refreshMs,
      add: (key) => probes.addEndpoint(key),
      remove: (key) => probes.removeEndpoint(key),
    });
    const watch = new PhaseWatch({
      ...{ probes, poll, limits: policy },
      pids: (tag) => registry.tagged(tag)?.members.keys() ?? [],
      onPhase: (tag, phase) => {
        const sandbox = registry.tagged(tag);
        if (sandbox !== undefined) onPhase(sandbox, phase);
      },
    });
    this.watch = policy.enabled && watch.able ? watch : null;
    if (this.watch === null) return;
    this.inbound = [...policy.inbound];
    for (const port of this.inbound) probes.addInbound(port);
    probes.onNews(poll);
  }

  get warnings(): string[] {
    return this.endpoints.warnings;
  }

  /** Watches a sandbox from now on. */
  add(sandbox: Sandbox): void {
    if (this.watch === null) return;
    this.endpoints.start();
    const id = this.enterable ? memoryCgroupId(sandbox.spec.cgroup) : null;
    if (id !== null) {
      this.cgroups.set(sandbox.tag, id);
      this.probes.addCgroup(id, sandbox.tag);
    }
    sandbox.phaseSource = 'probes';
    this.watch.add(sandbox.tag);
  }

  /** Leaves a sandbox to its host from now on. */
  leave(sandbox: Sandbox): void {
    if (sandbox.phaseSource === 'host') return;
    sandbox.phaseSource = 'host';
    this.remove(sandbox);
  }

  /** All its processes have ended: it begins anew if others join. */
  restart(sandbox: Sandbox): void {
    this.watch?.remove(sandbox.tag);
    if (sandbox.phaseSource === 'probes') this.watch?.add(sandbox.tag);
  }

  remove(sandbox: Sandbox): void {
    const id = this.cgroups.get(sandbox.tag);
    if (id !== undefined) this.probes.removeCgroup(id);
    this.cgroups.delete(sandbox.tag);
    this.watch?.remove(sandbox.tag);
  }

  /** Nothing is watched any more, and the probes look for nothing of it. */
  close(): void {
    for (const port of this.inbound) this.probes.removeInbound(port);
    for (const id of this.cgroups.values()) this.probes.removeCgroup(id);
    this.endpoints.close();
    this.watch?.close();
  }
}
