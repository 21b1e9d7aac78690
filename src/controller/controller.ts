import { AgentZipError } from '../errors.js';
import { version } from '../paths.js';
import { userNamespace } from '../memory/process.js';
import { createMetrics } from '../otel/metrics.js';
import type { Telemetry } from '../otel/telemetry.js';
import type { PagerClient } from '../pager/client.js';
import type { PagerInfo, PagerStatus } from '../pager/protocol.js';
import { startPager } from '../pager/start.js';
import type { HostAdapter } from '../hosts/adapter.js';
import type { Policy } from '../policy/policy.js';
import type { Probes } from '../telemetry/probes.js';
import {
  EVENT_TYPES,
  type ControllerApi,
  type HostEvent,
  type Phase,
  type SandboxSpec,
  type SandboxStatus,
  type Status,
  type TemplateSpec,
  type TemplateStatus,
} from './api.js';
import { adaptersOf } from './adapters.js';
import { sameSandbox } from './adoption.js';
import type { Context } from './context.js';
import { DemandFaults } from './demand-faults.js';
import { Detection, eventOf } from './detection.js';
import { trustDomain } from './domain.js';
import { Events } from './events.js';
import { openFaultSource, readsOf, seenBy, type FaultSource } from './fault-source.js';
import { Following, ProbeWatcher } from './following.js';
import { HostPressure } from './host-pressure.js';
import { Hosts } from './hosts.js';
import { Predictions } from './predictions.js';
import { Forerunner } from './forerunner.js';
import { ModelFiles } from './model-file.js';
import { Models } from './models.js';
import { isEventType, transition } from './phases.js';
import { Predictor } from './predictor.js';
import { Registry } from './registry.js';
import { Restorer } from './restorer.js';
import type { Finding, Sandbox } from './sandbox.js';
import { SlotOwners } from './slot-owners.js';
import { alertsOf, readingOf, sandboxStatus } from './status.js';
import { describe, Templates } from './templates.js';
import { Turns } from './turns.js';
import { WindowOpener } from './window-opener.js';
import { WindowRunner } from './window-runner.js';

const MIB = 1 << 20;
/** How old what a status shows of each sandbox's memory may be: looking costs some milliseconds a process. */
const SHOWN_MS = 1000;
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

/** Starts a controller, and the pager unless one runs. Errors: AZ_PAGER_START and what the pager's start raises. */
export async function createController(policy: Policy, telemetry: Telemetry): Promise<Controller> {
  const { frontEnd, tier, deviceMiB, storeMiB, stagingMiB, workers, standby } = policy.pager;
  const pager = await startPager({
    runtimeDir: policy.paths.runtimeDir,
    frontEnd,
    tier,
    deviceBytes: deviceMiB * MIB,
    storeBytes: storeMiB * MIB,
    stagingBytes: stagingMiB * MIB,
    workers,
    encoding: policy.encoding,
    standby,
  });
  try {
    const source = await openFaultSource(pager, policy.detect);
    return await AgentController.over(pager, policy, telemetry, source, adaptersOf(policy.hosts));
  } catch (error) {
    pager.close();
    throw error;
  }
}

export class AgentController implements Controller {
  readonly pagerGone: Promise<void>;
  readonly events: Events;
  private readonly startedAt = Date.now();
  private readonly restorer: Restorer;
  private readonly runner: WindowRunner;
  private readonly opener: WindowOpener;
  private readonly following: Following;
  private readonly detection: Detection;
  private readonly demand: DemandFaults;
  private readonly probes: Probes;
  private readonly hosts: Hosts;
  private readonly saving: NodeJS.Timeout;
  private enabled: boolean;

  private constructor(
    private readonly context: Context,
    private readonly source: FaultSource,
    private readonly watcher: ProbeWatcher,
    private readonly own: { pids: number[] },
    adapters: readonly HostAdapter[],
  ) {
    this.enabled = context.policy.mode === 'proactive' || context.policy.mode === 'pressure';
    this.events = context.events;
    const { registry, owners } = context;
    const probes = (this.probes = source.probes);
    this.demand = new DemandFaults(source.reads, registry, owners);
    this.restorer = new Restorer(context);
    this.runner = new WindowRunner(context, this.restorer);
    this.opener = new WindowOpener(context, this.runner, () => this.enabled);
    this.detection = new Detection({
      ...{ policy: context.policy.detect, probes, registry },
      poll: () => this.following.poll(),
      onPhase: (sandbox, phase) => this.detected(sandbox, phase),
    });
    const forerunner = new Forerunner(context, context.predictor);
    const vacant = (sandbox: Sandbox): void => this.vacant(sandbox);
    this.following = new Following(probes, registry, vacant, forerunner, this.demand);
    this.following.watch = this.detection.watch;
    const { intervalMs } = context.policy.hosts;
    this.hosts = new Hosts(registry, this.detection, adapters, intervalMs, {
      register: (id, spec, finding) => this.register(id, spec, finding),
      remove: (id) => this.deleteSandbox(id),
      bringBack: (sandbox) => this.bringBack(sandbox, 'shutdown'),
      take: (sandbox, event) => this.take(sandbox, event),
    });
    this.saving = setInterval(() => context.predictor.models.saveAll(), SAVE_MS).unref();
    this.pagerGone = context.pager.closed.then(() => this.disable());
    context.pager.onTakeover = (info) => this.pagerReplaced(info);
    context.hostPressure.onShort = () => this.opener.useAll();
  }

  /** A controller over a pager that is connected, and what tells of faults; it closes both. */
  static async over(
    pager: PagerClient,
    policy: Policy,
    telemetry: Telemetry,
    source: FaultSource,
    adapters: readonly HostAdapter[] = [],
  ): Promise<AgentController> {
    const info = await pager.request('hello', {});
    await pager.request('doubtSole', {});
    const own = { pids: [process.pid, info.pid], userNamespace: userNamespace(process.pid) ?? '' };
    const watcher = new ProbeWatcher(source.probes);
    const registry = new Registry(own, watcher);
    const templates = new Templates(pager, `${policy.paths.stateDir}/templates`, (pid) =>
      registry.checkProcess(pid),
    );
    const models = new Models(new ModelFiles(`${policy.paths.stateDir}/prefetch`));
    const metrics = createMetrics(telemetry.meter, async () =>
      readingOf(await controller.status(), telemetry.droppedSpans()),
    );
    const controller: AgentController = new AgentController(
      {
        ...{ policy, pager, info, registry, templates, telemetry, metrics },
        predictor: new Predictor(models, templates, policy.prefetch, () => info.swapType),
        owners: new SlotOwners(info.slots),
        turns: new Turns(),
        events: new Events(),
        predictions: new Predictions(),
        hostPressure: new HostPressure(policy.pressure),
        pollProbes: () => controller.following.poll(),
        knowsLineage: (sandbox) => watcher.complete && controller.following.knowsLineage(sandbox),
      },
      source,
      watcher,
      own,
      adapters,
    );
    await controller.hosts.discovery.start();
    return controller;
  }

  async putTemplate(id: string, spec: TemplateSpec): Promise<TemplateStatus> {
    const { registry, templates } = this.context;
    const inUse = registry.all().some((sandbox) => sandbox.spec.template === id);
    const template = await templates.put(id, spec, inUse);
    const { packs } = await this.pagerStatus();
    return describe(template, packs, this.context.predictor.models);
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
    const { registry, policy } = this.context;
    const domain = trustDomain({ id, tenant: spec.tenant, template: spec.template }, policy.trust.domain);
    this.detection.add(registry.add(id, spec, domain, finding));
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
    const status = await this.pagerStatus();
    return sandboxStatus(this.context, this.context.registry.get(id), status);
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
    // A window that ended early, for its budget, leaves the prefetch to the event that ends the wait.
    if (ends !== null && !sandbox.endWindow(ends) && !sandbox.prefetched) this.prefetchLate(sandbox);
    if (opens) this.opener.use(sandbox, event);
  }

  async prePause(id: string): Promise<void> {
    const sandbox = this.context.registry.get(id);
    sandbox.paused = true;
    await this.bringBack(sandbox, 'shutdown');
  }

  postResume(id: string): void {
    this.context.registry.get(id).paused = false;
  }

  async wake(id: string): Promise<void> {
    await this.bringBack(this.context.registry.get(id), 'tool_start');
  }

  async status(): Promise<Status> {
    const { registry, templates, predictor, info, hostPressure } = this.context;
    const pager = await this.pagerStatus();
    const { events, dropped } = this.probes.stats();
    const templateStatuses = templates.statuses(pager.packs, predictor.models);
    return {
      version,
      uptimeMs: Date.now() - this.startedAt,
      enabled: this.enabled,
      pid: process.pid,
      pager: {
        pid: info.pid,
        device: info.device,
        frontEnd: info.frontEnd,
        frontEndReason: info.frontEndReason,
        poolBytes: pager.poolBytes,
        store: pager.store,
        baseBytes: pager.baseBytes,
        usedSlots: pager.usedSlots,
        foreignSlots: pager.foreignSlots,
        encodings: pager.encodings,
        reads: pager.reads,
        writes: pager.writes,
        discards: pager.discards,
        freedSlots: pager.freedSlots,
        refusedWrites: pager.refusedWrites,
        corruptPages: pager.corruptPages,
        takeovers: pager.takeovers,
        standbyPid: pager.standbyPid,
      },
      memory: { ...hostPressure.status(), warnings: [...hostPressure.warnings] },
      alerts: [...alertsOf(pager, templateStatuses), ...predictor.models.alerts],
      probes: {
        attached: [...this.probes.attached],
        warnings: [
          ...this.source.warnings,
          ...[...this.probes.warnings, ...this.watcher.warnings, ...this.detection.warnings],
        ],
        events,
        dropped,
        faults: seenBy(this.probes, this.demand),
        lostReads: this.demand.lost,
      },
      hosts: this.hosts.discovery.statuses,
      sandboxes: registry.all().map((sandbox) => sandboxStatus(this.context, sandbox, pager, SHOWN_MS)),
      templates: templateStatuses,
    };
  }

  disable(): void {
    this.enabled = false;
    for (const sandbox of this.context.registry.all()) sandbox.endWindow('shutdown');
  }

  async drain(): Promise<void> {
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
    this.disable();
    await this.idle();
    this.detection.close();
    this.following.close();
    this.context.hostPressure.close();
    clearInterval(this.saving);
    this.context.predictor.models.saveAll();
    for (const sandbox of this.context.registry.all()) this.context.registry.remove(sandbox);
    this.probes.close();
    this.demand.close();
    this.context.pager.close();
    await this.pagerGone;
  }

  /** The pager's standby has taken over. What had been claimed and not refined waits in no queue any more. */
  private pagerReplaced(info: PagerInfo): void {
    const { registry } = this.context;
    Object.assign(this.context.info, info);
    this.own.pids = [process.pid, info.pid];
    for (const sandbox of registry.all())
      for (const member of sandbox.members.values()) member.claimed.clear();
    void this.followReads();
  }

  /** The log of reads has gone with the pager that kept it. */
  private async followReads(): Promise<void> {
    if (this.demand.able) this.demand.follow(await readsOf(this.context.pager, this.source.warnings));
  }

  private prefetchLate(sandbox: Sandbox): void {
    // It is a bet on speed: when it fails, the pages come back on demand.
    const prefetch = async (): Promise<void> => {
      if (!sandbox.prefetched) await this.restorer.prefetch(sandbox);
    };
    sandbox.work.run(prefetch).catch(() => {});
  }

  private async bringBack(sandbox: Sandbox, reason: 'shutdown' | 'tool_start'): Promise<void> {
    sandbox.endWindow(reason);
    await sandbox.work.run(async () => {
      this.context.registry.refresh(sandbox);
      await this.restorer.all(sandbox);
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
