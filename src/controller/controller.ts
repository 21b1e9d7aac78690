import { AgentZipError } from '../errors.js';
import { userNamespace } from '../memory/process.js';
import type { Telemetry } from '../otel/telemetry.js';
import type { Pager } from '../pager/client.js';
import type { PagerInfo, PagerStatus } from '../pager/protocol.js';
import type { HostAdapter } from '../hosts/adapter.js';
import type { Probes } from '../telemetry/probes.js';
import {
  EVENT_TYPES,
  type ControllerApi,
  type Explanation,
  type HostEvent,
  type Phase,
  type SandboxSpec,
  type SandboxStatus,
  type Status,
  type TemplateSpec,
  type TemplateStatus,
} from './api.js';
import { sameSandbox } from './sandboxes/adoption.js';
import type { Context } from './context.js';
import { createContext } from './create-context.js';
import { DemandFaults } from './faults/demand-faults.js';
import { Detection, eventOf } from './detection.js';
import { trustDomain } from './claims/domain.js';
import { Events } from './events.js';
import { explain } from './explain.js';
import { seenBy, type FaultSource } from './faults/fault-source.js';
import { FaultSourceKeeper } from './faults/fault-source-keeper.js';
import { Following, ProbeWatcher } from './sandboxes/following.js';
import { Hosts } from './sandboxes/hosts.js';
import { Observer } from './sandboxes/observer.js';
import type { Policies } from './policies.js';
import { Forerunner } from './prefetch/forerunner.js';
import { isEventType, transition } from './phases.js';
import { Restorer } from './prefetch/restorer.js';
import type { Finding, Sandbox } from './sandboxes/sandbox.js';
import { serviceStatus } from './service-status.js';
import { sandboxNow } from './status.js';
import { describe } from './templates/templates.js';
import { TierChange } from './tier-change.js';
import { WindowOpener } from './windows/window-opener.js';
import { WindowRunner } from './windows/window-runner.js';

/** Sandboxes that were found within one that a host registers. */
const MOST_FOUND_WITHIN = 64;
/** What was learnt since is lost when the controller dies. */
const SAVE_MS = 5 * 60_000;

export interface Controller extends ControllerApi {
  /** Settles when the pager is gone, whether drained or lost. */
  readonly pagerGone: Promise<void>;
  /** What happens, as it happens. */
  readonly events: Events;
  /** Ends what is going on and lets go of probes and pager. The pager lives on: what is out stays readable. */
  close(): Promise<void>;
}

export class AgentController implements Controller {
  readonly pagerGone: Promise<void>;
  readonly events: Events;
  private readonly startedAt = Date.now();
  private readonly restorer: Restorer;
  private readonly runner: WindowRunner;
  private readonly observer: Observer;
  private readonly opener: WindowOpener;
  readonly following: Following;
  private detection: Detection;
  private readonly demand: DemandFaults;
  private readonly faults: FaultSourceKeeper;
  private readonly probes: Probes;
  private readonly hosts: Hosts;
  private readonly saving: NodeJS.Timeout;
  private readonly tiers: TierChange;
  private enabled = true;

  private constructor(
    private readonly context: Context,
    source: FaultSource,
    private readonly watcher: ProbeWatcher,
    private readonly own: { pids: number[] },
    adapters: readonly HostAdapter[],
  ) {
    this.events = context.events;
    const { registry, owners } = context;
    const probes = (this.probes = source.probes);
    this.demand = new DemandFaults(source.reads, registry, owners);
    this.faults = new FaultSourceKeeper(context, source, this.demand);
    this.restorer = new Restorer(context);
    this.runner = new WindowRunner(context, this.restorer);
    this.observer = new Observer(context);
    this.opener = new WindowOpener(context, this.runner, this.observer, () => this.mayOpen);
    this.detection = this.detect();
    const forerunner = new Forerunner(context, context.predictor);
    const vacant = (sandbox: Sandbox): void => this.vacant(sandbox);
    this.following = new Following(probes, registry, vacant, forerunner, this.demand);
    this.following.watch = this.detection.watch;
    const { intervalMs } = context.policy.hosts;
    this.hosts = new Hosts(registry, () => this.detection, adapters, intervalMs, {
      register: (id, spec, finding) => this.register(id, spec, finding),
      remove: (id) => this.deleteSandbox(id),
      bringBack: (sandbox) => this.bringBack(sandbox, 'shutdown'),
      take: (sandbox, event) => this.take(sandbox, event),
      templates: {
        has: (id) => context.templates.has(id),
        put: (id, spec) => this.putTemplate(id, spec),
      },
    });
    const { runner, opener, demand, faults, following } = this;
    const idle = (): Promise<void> => this.idle();
    this.tiers = new TierChange(context, { runner, opener, demand, faults, following, idle });
    this.saving = setInterval(() => context.predictor.models.saveAll(), SAVE_MS).unref();
    this.pagerGone = context.pager.closed.then(() => this.disable());
    context.pager.onTakeover = (info) => this.pagerReplaced(info);
    context.hostPressure.onShort = () => this.opener.useAll();
    context.policies.live.onChange((changed) => this.policyChanged(changed));
  }

  /** A controller over a pager that is connected, and what tells of faults; it closes both. */
  static async over(
    pager: Pager,
    policies: Policies,
    telemetry: Telemetry,
    source: FaultSource,
    adapters: readonly HostAdapter[] = [],
  ): Promise<AgentController> {
    const info = await pager.request('hello', {});
    await pager.request('doubtSole', {});
    const own = { pids: [process.pid, info.pid], userNamespace: userNamespace(process.pid) ?? '' };
    const watcher = new ProbeWatcher(source.probes);
    const context = await createContext({ pager, info, policies, telemetry, watcher, own }, () => controller);
    const controller: AgentController = new AgentController(context, source, watcher, own, adapters);
    await controller.hosts.discovery.start();
    controller.tiers.follow();
    return controller;
  }

  async putTemplate(id: string, spec: TemplateSpec): Promise<TemplateStatus> {
    const { dryRun } = this.context.policies;
    const template = await this.context.templates.put(id, spec, this.templateInUse(id), dryRun);
    const { packs } = await this.pagerStatus();
    return describe(template, packs, this.context.predictor.models);
  }

  async deleteTemplate(id: string): Promise<void> {
    await this.context.templates.drop(id, this.templateInUse(id));
  }

  private templateInUse(id: string): boolean {
    return this.context.registry.all().some((sandbox) => sandbox.spec.template === id);
  }

  async putSandbox(id: string, spec: SandboxSpec): Promise<SandboxStatus> {
    const { registry, templates } = this.context;
    if (id.includes(':')) {
      throw new AgentZipError('AZ_BAD_REQUEST', {
        what: `${id} is the id of a sandbox that AgentZip finds by itself`,
      });
    }
    if (spec.template !== undefined && !templates.has(spec.template)) {
      throw new AgentZipError('AZ_UNKNOWN_TEMPLATE', { id: spec.template });
    }
    const known = registry.find(id);
    if (known !== undefined && registry.refresh(known)) {
      if (sameSandbox(known.spec, spec)) return this.changeMode(known, spec);
      throw new AgentZipError('AZ_BAD_REQUEST', {
        what: `sandbox ${id} is registered with other processes, template or tenant: delete it first`,
      });
    }
    // The sandbox of that name has ended; this is the next.
    if (known !== undefined) await this.deleteSandbox(id);
    await this.registerOver(id, spec);
    return this.getSandbox(id);
  }

  private register(id: string, spec: SandboxSpec, finding: Finding | null): void {
    const { registry, policies, pauses } = this.context;
    const { tenant, template } = spec;
    const rule = policies.for({ sandbox: id, tenant, template }).trust.domain;
    const domain = trustDomain({ id, tenant, template }, rule);
    this.detection.add(pauses.resume(registry.add(id, spec, domain, finding, rule)));
  }

  /** What a host says of processes counts before what was found out of them. */
  private async registerOver(id: string, spec: SandboxSpec): Promise<void> {
    const { registry } = this.context;
    for (let left = MOST_FOUND_WITHIN; ; left--) {
      try {
        return this.register(id, spec, null);
      } catch (error) {
        if (!(error instanceof AgentZipError) || error.code !== 'AZ_PROCESS_CLAIMED' || left === 0)
          throw error;
        const owner = registry.find(String(error.details.owner));
        if (owner === undefined || owner.finding === null) throw error;
        await this.deleteSandbox(owner.id);
      }
    }
  }

  private async changeMode(sandbox: Sandbox, { mode = 'reclaim' }: SandboxSpec): Promise<SandboxStatus> {
    const changed = sandbox.mode !== mode;
    sandbox.mode = mode;
    if (changed && mode === 'observe') await this.bringBack(sandbox, 'shutdown');
    return this.getSandbox(sandbox.id);
  }

  async getSandbox(id: string): Promise<SandboxStatus> {
    return sandboxNow(this.context, this.context.registry.get(id), await this.pagerStatus());
  }

  async explain(id: string): Promise<Explanation> {
    return explain(this.context, this.context.registry.get(id), this.enabled);
  }

  async deleteSandbox(id: string): Promise<void> {
    const { registry } = this.context;
    const sandbox = registry.get(id);
    const wasPaused = sandbox.paused;
    sandbox.paused = true;
    sandbox.endWindow('shutdown');
    try {
      await sandbox.work.run(async () => {
        if (registry.refresh(sandbox)) await this.restorer.all(sandbox);
        await this.runner.forget(sandbox);
      });
    } catch (error) {
      sandbox.paused = wasPaused;
      throw error;
    }
    this.detection.remove(sandbox);
    registry.remove(sandbox);
    this.context.pauses.end(sandbox);
  }

  event(id: string, event: HostEvent): void {
    const sandbox = this.context.registry.get(id);
    if (!isEventType(event.type)) {
      throw new AgentZipError('AZ_UNKNOWN_EVENT', {
        type: String(event.type),
        known: EVENT_TYPES.join(', '),
      });
    }
    this.detection.leave(sandbox);
    this.take(sandbox, event);
  }

  /** What the probes have found out, for a host that says nothing. */
  private detected(sandbox: Sandbox, phase: Phase): void {
    if (phase === 'unknown') {
      this.enter(sandbox, phase);
      sandbox.endWindow('tool_start');
    } else this.take(sandbox, { type: eventOf(sandbox.phase, phase) });
  }

  private enter(sandbox: Sandbox, phase: Phase): void {
    const { id, phase: before, phaseSource: source } = sandbox;
    sandbox.phase = phase;
    if (phase !== before) this.events.tell('phase', { sandbox: id, phase, source });
  }

  private take(sandbox: Sandbox, event: HostEvent): void {
    const { phase, opens, ends } = transition(event.type);
    const { predictions } = this.context;
    this.enter(sandbox, phase);
    const wait = sandbox.waited(event, ends !== null);
    if (wait !== null) predictions.waited(sandbox, wait.model, wait.ms);
    if (event.tool !== undefined) sandbox.tools.name(event.tool);
    if (event.type === 'tool_start') this.following.hurry();
    const streamMs = sandbox.streamed(event.type);
    if (streamMs !== null) predictions.streamed(sandbox, streamMs);
    if (ends !== null) this.observer.end(sandbox, ends);
    // A window that ended early, for its budget, leaves the prefetch to the event that ends the wait.
    if (ends !== null && !sandbox.endWindow(ends) && !sandbox.prefetched) this.prefetchLate(sandbox);
    if (opens) this.opener.use(sandbox, event);
  }

  async prePause(id: string): Promise<void> {
    const sandbox = this.context.pauses.begin(this.context.registry.get(id));
    await this.bringBack(sandbox, 'shutdown', true);
  }

  postResume(id: string): void {
    this.context.pauses.end(this.context.registry.get(id));
  }

  async wake(id: string): Promise<void> {
    await this.bringBack(this.context.registry.get(id), 'tool_start');
  }

  async status(): Promise<Status> {
    const { probes, demand, faults, watcher, detection, hosts, tiers } = this;
    const told = [...faults.warnings, ...probes.warnings];
    const warnings = [...told, ...watcher.warnings, ...detection.warnings];
    const { events, dropped } = probes.stats();
    return serviceStatus(this.context, await this.pagerStatus(), {
      ...{ startedAt: this.startedAt, enabled: this.enabled, hosts: hosts.discovery.statuses },
      tierFailure: tiers.failure,
      probes: {
        ...{ attached: [...probes.attached], warnings, events, dropped },
        ...{ faults: seenBy(probes, demand), lostReads: demand.lost },
      },
    });
  }

  disable(): void {
    this.enabled = false;
    for (const sandbox of this.context.registry.all()) sandbox.endWindow('shutdown');
  }

  private get mayOpen(): boolean {
    return this.enabled && !this.tiers.underWay;
  }

  async drain(): Promise<void> {
    await this.tiers.settled();
    const before = this.enabled;
    this.disable();
    // What swapoff reads no tool waits for.
    this.demand.muted = true;
    try {
      await this.idle();
      await this.context.pager.request('drain', {});
    } catch (error) {
      this.enabled = before;
      this.following.poll();
      this.demand.muted = false;
      throw error;
    }
  }

  async close(): Promise<void> {
    this.hosts.discovery.close();
    this.tiers.close();
    this.disable();
    await this.idle();
    this.detection.close();
    this.following.close();
    this.context.hostPressure.close();
    clearInterval(this.saving);
    this.context.templates.captured.close();
    this.context.predictor.models.saveAll();
    for (const sandbox of this.context.registry.all()) this.context.registry.remove(sandbox);
    this.probes.close();
    this.demand.close();
    this.runner.stop();
    this.context.pager.close();
    await this.pagerGone;
  }

  private detect(): Detection {
    const { policy, registry } = this.context;
    return new Detection({
      ...{ policy: policy.detect, probes: this.probes, registry },
      poll: () => this.following.poll(),
      onPhase: (sandbox, phase) => this.detected(sandbox, phase),
    });
  }

  /** Whose pages may not go out any more has no window; what is looked for from outside is looked for anew. */
  private policyChanged(changed: readonly string[]): void {
    const { registry, policies } = this.context;
    for (const sandbox of registry.all()) if (!policies.acts(sandbox)) sandbox.endWindow('shutdown');
    if (changed.includes('pager.tier')) this.tiers.follow();
    if (!changed.some((key) => Detection.COPIED.includes(key))) return;
    this.detection.close();
    this.detection = this.detect();
    this.following.watch = this.detection.watch;
    for (const sandbox of registry.all()) {
      if (sandbox.phaseSource === 'host') continue;
      sandbox.phaseSource = 'none';
      this.detected(sandbox, 'unknown');
      this.detection.add(sandbox);
    }
  }

  /** The pager's standby has taken over. What had been claimed and not refined waits in no queue any more. */
  private pagerReplaced(info: PagerInfo): void {
    const { registry } = this.context;
    Object.assign(this.context.info, info);
    this.own.pids = [process.pid, info.pid];
    for (const sandbox of registry.all())
      for (const member of sandbox.members.values()) member.claimed.clear();
    void this.faults.renew();
  }

  private prefetchLate(sandbox: Sandbox): void {
    // It is a bet on speed: when it fails, the pages come back on demand.
    const prefetch = async (): Promise<void> => {
      if (!sandbox.prefetched) await this.restorer.prefetch(sandbox);
    };
    sandbox.work.run(prefetch).catch(() => {});
  }

  private async bringBack(
    sandbox: Sandbox,
    reason: 'shutdown' | 'tool_start',
    everywhere = false,
  ): Promise<void> {
    sandbox.endWindow(reason);
    await sandbox.work.run(async () => {
      this.context.registry.refresh(sandbox);
      await this.restorer.all(sandbox, everywhere);
    });
  }

  /** Its last process has ended: whatever slots it had are nobody's. */
  private vacant(sandbox: Sandbox): void {
    this.enter(sandbox, 'unknown');
    this.detection.restart(sandbox);
    // The window's own end forgets; without one it is done here. A pager that is gone has forgotten already.
    if (!sandbox.endWindow('exit')) sandbox.work.run(() => this.runner.forget(sandbox)).catch(() => {});
  }

  /** Waits for what is going on in every sandbox. */
  private async idle(): Promise<void> {
    await Promise.all(this.context.registry.all().map((sandbox) => sandbox.work.run(async () => {})));
  }

  private pagerStatus(): Promise<PagerStatus> {
    return this.context.pager.request('status', {});
  }
}
