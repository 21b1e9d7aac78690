import { cgroupMounts, maySwap, processCgroup, type CgroupMount } from '../memory/cgroup.js';
import type { FoundSandbox, HostAdapter, HostListener } from './adapter.js';
import { DockerCalls } from './docker-calls.js';
import { DockerEngine, type ContainerSummary, type EngineEvent } from './docker-engine.js';
import { foundId } from './names.js';
import { virtualRuntime } from './runtimes.js';
import { Selectors } from './selectors.js';

export interface DockerOptions {
  mode: 'reclaim' | 'observe';
  /** Path of the engine's socket. */
  socket: string;
  include: readonly string[];
  exclude: readonly string[];
  /** Labels that say whose a container is, and what it started from in place of its image. */
  tenantLabel: string;
  templateLabel: string;
}

/** What is known of a container since it started. */
interface Known {
  id: string;
  pid: number;
  /** Null: the root cgroup, or one that is not mounted here. */
  folder: string | null;
  runtime: string;
  healthcheck: readonly string[];
}

/** Containers inspected at a time. */
const INSPECTED_AT_ONCE = 8;
/** Events after which there are other containers than before, or they are called otherwise. */
const CHANGES = new Set(['start', 'die', 'destroy', 'rename', 'pause', 'unpause', 'update']);

/** Containers of a Docker Engine (or of Podman, which speaks the same API), by its socket. */
export class DockerAdapter implements HostAdapter {
  readonly name = 'docker';
  private readonly engine: DockerEngine;
  private readonly selectors: Selectors;
  private known = new Map<string, Known>();
  private readonly calls = new DockerCalls();
  /** Ids of sandboxes whose listener knows that they are frozen. */
  private frozen = new Set<string>();
  private listener: HostListener | null = null;
  private lastNano: number | null = null;

  constructor(private readonly options: DockerOptions) {
    this.engine = new DockerEngine(options.socket);
    this.selectors = new Selectors(options.include, options.exclude);
  }

  async find(): Promise<FoundSandbox[]> {
    const chosen = (await this.engine.containers()).filter((container) =>
      this.selectors.choose(of(container)),
    );
    const mounts = cgroupMounts();
    const known = new Map<string, Known>();
    const queue = [...chosen];
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const details = await this.detailsOf(next.Id, foundId(this.name, of(next).name), mounts);
        if (details !== null) known.set(next.Id, details);
      }
    };
    await Promise.all(Array.from({ length: INSPECTED_AT_ONCE }, work));
    this.known = known;
    this.calls.keep(known);
    const found = chosen.filter(({ Id }) => known.has(Id));
    this.tellFrozen(found.map(({ Id, State }) => ({ id: known.get(Id)!.id, on: State === 'paused' })));
    return found.map((container) => this.describe(container, known.get(container.Id)!, mounts));
  }

  follow(listener: HostListener): () => void {
    this.listener = listener;
    const since = this.lastNano;
    const end = this.engine.events(since, {
      // What has changed between the look before and now.
      begun: () => listener.changed(),
      // It begins again with the last one that was seen.
      event: (event) => event.timeNano !== since && this.take(event, listener),
      failed: (error) => listener.failed(error),
    });
    return () => {
      end();
      this.listener = null;
    };
  }

  /** Null: it does not run any more. */
  private async detailsOf(
    container: string,
    id: string,
    mounts: readonly CgroupMount[],
  ): Promise<Known | null> {
    const before = this.known.get(container);
    if (before !== undefined && before.folder !== null && processCgroup(before.pid, mounts) === before.folder)
      return { ...before, id };
    const details = await this.engine.inspect(container);
    const pid = details?.State.Pid ?? 0;
    if (details === null || pid === 0) return null;
    return {
      ...{ id, pid, folder: processCgroup(pid, mounts), runtime: details.HostConfig.Runtime ?? '' },
      healthcheck: details.Config.Healthcheck?.Test ?? [],
    };
  }

  private describe(
    container: ContainerSummary,
    { id, pid, folder, runtime }: Known,
    mounts: readonly CgroupMount[],
  ): FoundSandbox {
    const { mode, tenantLabel, templateLabel } = this.options;
    const labels = container.Labels ?? {};
    const swaps = folder === null || maySwap(folder, mounts);
    const virtual = virtualRuntime(runtime);
    const reasons = [
      ...(virtual === null ? [] : [virtual.why]),
      ...(swaps ? [] : ['it may not swap: its swap limit is 0 (--memory-swap)']),
      ...(mode === 'observe' ? ['hosts.docker.mode in the policy is observe'] : []),
    ];
    return {
      id,
      // Its cgroup, for what `docker exec` brings in descends from another process than its first.
      ...(folder === null ? { pids: [pid] } : { cgroup: folder }),
      template: labels[templateLabel] || container.ImageID || container.Image,
      tenant: labels[tenantLabel] || undefined,
      mode: reasons.length > 0 ? 'observe' : 'reclaim',
      why: reasons[0] ?? `a container of ${container.Image}`,
      hazards: [...(virtual?.hazards ?? []), ...(swaps ? [] : (['no_swap'] as const))],
    };
  }

  private take({ Action, Actor, timeNano }: EngineEvent, listener: HostListener): void {
    this.lastNano = timeNano;
    if (CHANGES.has(Action)) listener.changed();
    const known = this.known.get(Actor.ID);
    if (known === undefined) return;
    if (Action === 'pause' || Action === 'unpause') this.thaw(known.id, Action === 'pause');
    this.calls.take(Action, Actor, known, listener);
  }

  /** Once the listener has taken in what was found. */
  private tellFrozen(states: readonly { id: string; on: boolean }[]): void {
    const ids = new Set(states.map(({ id }) => id));
    for (const id of this.frozen) if (!ids.has(id)) this.frozen.delete(id);
    setImmediate(() => states.forEach(({ id, on }) => this.thaw(id, on)));
  }

  private thaw(id: string, on: boolean): void {
    if (this.listener === null || this.frozen.has(id) === on) return;
    if (on) this.frozen.add(id);
    else this.frozen.delete(id);
    this.listener.frozen?.(id, on);
  }
}

/** What selectors look at. */
const of = ({ Id, Names, Image, Labels }: ContainerSummary) => ({
  name: Names[0]?.replace(/^\//, '') ?? Id.slice(0, 12),
  image: Image,
  labels: Labels ?? {},
});
