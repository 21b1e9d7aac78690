import { memoryCgroupId } from '../memory/cgroup.js';
import type { Policy } from '../policy/policy.js';
import { Endpoints } from '../telemetry/endpoints.js';
import { monotonicMs } from '../schedule/clock.js';
import { PhaseWatch } from '../telemetry/phase-watch.js';
import type { Probes } from '../telemetry/probes.js';
import type { EventType, Phase } from './api.js';
import type { Registry } from './sandboxes/registry.js';
import type { Sandbox } from './sandboxes/sandbox.js';

const NS_PER_MS = 1e6;
/** Calls remembered of a sandbox; a platform that loses their ends must not fill the memory. */
const MOST_CALLS = 1024;

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
  private readonly onPhase: DetectionOptions['onPhase'];
  /** Tag → inode of the cgroup's folder, of sandboxes that may be entered. */
  private readonly cgroups = new Map<number, bigint>();
  private readonly enterable: boolean;
  /** Tag → calls that its platform said have begun and not ended: what stands for each where else a pid does. */
  private readonly calls = new Map<number, number[]>();
  private lastCall = 0;
  private readonly inbound: readonly number[] = [];

  constructor(options: DetectionOptions) {
    const { policy, probes, registry, poll, onPhase } = options;
    this.onPhase = onPhase;
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

  /**
   * Its platform says that a tool call begins or ends in it: the same evidence as a process that is brought in. Where
   * nobody watches, it is all there is.
   */
  tool(sandbox: Sandbox, type: 'tool_start' | 'tool_end'): void {
    const calls = this.calls.get(sandbox.tag) ?? [];
    this.calls.set(sandbox.tag, calls);
    const now = monotonicMs() * NS_PER_MS;
    if (type === 'tool_start') {
      if (calls.length === MOST_CALLS) calls.shift();
      calls.push(--this.lastCall);
      this.watch?.entered(sandbox.tag, this.lastCall, now);
    } else {
      const call = calls.shift();
      if (call !== undefined) this.watch?.exited(sandbox.tag, call, now);
    }
    if (this.watch === null) this.onPhase(sandbox, calls.length > 0 ? 'tool_running' : 'idle');
  }

  /** While it is frozen there is nothing to find out. */
  suspend(sandbox: Sandbox, on: boolean): void {
    if (sandbox.phaseSource !== 'probes') return;
    if (on) this.watch?.remove(sandbox.tag);
    else this.watch?.add(sandbox.tag);
  }

  /** Leaves a sandbox to its host from now on. */
  leave(sandbox: Sandbox): void {
    if (sandbox.phaseSource === 'host') return;
    sandbox.phaseSource = 'host';
    this.remove(sandbox);
  }

  /** All its processes have ended: it begins anew if others join. */
  restart(sandbox: Sandbox): void {
    this.calls.delete(sandbox.tag);
    this.watch?.remove(sandbox.tag);
    if (sandbox.phaseSource === 'probes') this.watch?.add(sandbox.tag);
  }

  remove(sandbox: Sandbox): void {
    const id = this.cgroups.get(sandbox.tag);
    if (id !== undefined) this.probes.removeCgroup(id);
    this.cgroups.delete(sandbox.tag);
    this.calls.delete(sandbox.tag);
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
