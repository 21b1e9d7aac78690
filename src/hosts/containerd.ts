import { cgroupMounts, maySwap, processCgroup, type CgroupMount } from '../memory/cgroup.js';
import { commandName } from '../memory/process.js';
import type { FoundSandbox, HostAdapter, HostListener } from './adapter.js';
import { ContainerdApi, type Container, type Task, type TaskEvent } from './containerd-api.js';
import { foundId } from './names.js';
import { podOf, podsOf, type Pod } from './pods.js';
import { virtualRuntime } from './runtimes.js';
import { Selectors } from './selectors.js';

export interface ContainerdOptions {
  mode: 'reclaim' | 'observe';
  /** Path of containerd's socket. */
  address: string;
  namespaces: readonly string[];
  include: readonly string[];
  exclude: readonly string[];
  /** Labels, of a container or its pod, that name its tenant and its template: the first that is there. */
  tenantLabels: readonly string[];
  templateLabels: readonly string[];
  /** Processes that are brought into a container are tool calls. */
  calls: boolean;
}

/** Where a container is. */
interface Around {
  namespace: string;
  digests: ReadonlyMap<string, string>;
  mounts: readonly CgroupMount[];
}

/** Processes brought into containers that are remembered. */
const MOST_CALLS = 16_384;
/** Events after which there are other containers than before. */
const CHANGES = new Set(['/tasks/start', '/tasks/exit', '/tasks/delete', '/tasks/paused', '/tasks/resumed']);

/** Containers of containerd, those of Kubernetes' pods among them, by its socket. */
export class ContainerdAdapter implements HostAdapter {
  readonly name = 'containerd';
  private readonly api: ContainerdApi;
  private readonly selectors: Selectors;
  /** `NAMESPACE/CONTAINER` → id of the sandbox. */
  private known = new Map<string, string>();
  /** `NAMESPACE/CONTAINER/EXEC` of calls that are under way. */
  private readonly calls = new Set<string>();
  private frozen = new Set<string>();
  private listener: HostListener | null = null;

  constructor(private readonly options: ContainerdOptions) {
    this.api = new ContainerdApi(options.address);
    this.selectors = new Selectors(options.include, options.exclude);
  }

  async find(): Promise<FoundSandbox[]> {
    const known = new Map<string, string>();
    const paused = new Map<string, boolean>();
    const found: FoundSandbox[] = [];
    const mounts = cgroupMounts();
    for (const namespace of this.options.namespaces) {
      const [containers, tasks, digests] = await Promise.all([
        this.api.containers(namespace),
        this.api.tasks(namespace),
        this.api.digests(namespace),
      ]);
      const byId = new Map(tasks.map((task) => [task.id, task]));
      const pods = podsOf(containers);
      for (const container of containers) {
        const task = byId.get(container.id);
        const pod = podOf(container, pods);
        if (task === undefined || pod.isSandbox || !this.chosen(container, pod)) continue;
        const sandbox = this.describe(container, pod, task, { namespace, digests, mounts });
        found.push(sandbox);
        known.set(`${namespace}/${container.id}`, sandbox.id);
        paused.set(sandbox.id, task.paused);
      }
    }
    this.known = known;
    this.tellFrozen(paused);
    return found;
  }

  follow(listener: HostListener): () => void {
    this.listener = listener;
    const end = this.api.follow({
      begun: () => listener.changed(),
      event: (event) => this.take(event, listener),
      failed: (error) => {
        // What ends while nobody listens is not told later: those calls are over as far as is known.
        this.endCalls('', listener);
        listener.failed(error);
      },
    });
    return () => {
      end();
      this.listener = null;
    };
  }

  private chosen({ id, image }: Container, { labels, container }: Pod): boolean {
    return this.selectors.choose({ name: container ?? id, image, labels });
  }

  private describe(
    { id, image, runtime }: Container,
    pod: Pod,
    { pid }: Task,
    { namespace, digests, mounts }: Around,
  ): FoundSandbox {
    const { mode, tenantLabels, templateLabels } = this.options;
    const folder = processCgroup(pid, mounts);
    const swaps = folder === null || maySwap(folder, mounts);
    const virtual = virtualRuntime(runtime);
    const first = (keys: readonly string[]): string | undefined =>
      keys.map((key) => pod.labels[key]).find((value) => value !== undefined && value !== '');
    const named = first(templateLabels);
    const reasons = [
      ...(virtual === null ? [] : [virtual.why]),
      ...(swaps ? [] : ['it may not swap: Kubernetes lets only Burstable pods, where swap is on']),
      ...(mode === 'observe' ? ['hosts.containerd.mode in the policy is observe'] : []),
    ];
    return {
      id: foundId(this.name, pod.name ?? `${namespace}.${id}`),
      ...(folder === null ? { pids: [pid] } : { cgroup: folder }),
      // A pod's label is that of all its containers, which are not alike.
      template:
        named === undefined
          ? (digests.get(image) ?? image)
          : [named, pod.container].filter(Boolean).join('.'),
      tenant: first(tenantLabels),
      mode: reasons.length > 0 ? 'observe' : 'reclaim',
      why: reasons[0] ?? `a container of ${image || 'no image'}`,
      hazards: [...(virtual?.hazards ?? []), ...(swaps ? [] : (['no_swap'] as const))],
    };
  }

  private take({ namespace, topic, container, exec, pid }: TaskEvent, listener: HostListener): void {
    if (CHANGES.has(topic) && exec === '') listener.changed();
    const place = `${namespace}/${container}`;
    const id = this.known.get(place);
    if (id === undefined) return;
    if (topic === '/tasks/paused' || topic === '/tasks/resumed') this.tell(id, topic === '/tasks/paused');
    if (topic === '/tasks/exec-started' && this.options.calls && this.calls.size < MOST_CALLS) {
      this.calls.add(`${place}/${exec}`);
      listener.tool(id, 'tool_start', commandName(pid) || undefined);
    }
    if (topic === '/tasks/exit') {
      if (exec === '') this.endCalls(`${place}/`, listener);
      else if (this.calls.delete(`${place}/${exec}`)) listener.tool(id, 'tool_end');
    }
  }

  private endCalls(prefix: string, listener: HostListener): void {
    for (const call of this.calls) {
      if (!call.startsWith(prefix)) continue;
      this.calls.delete(call);
      const id = this.known.get(call.split('/').slice(0, 2).join('/'));
      if (id !== undefined) listener.tool(id, 'tool_end');
    }
  }

  /** Once the listener has taken in what was found. */
  private tellFrozen(paused: ReadonlyMap<string, boolean>): void {
    for (const id of this.frozen) if (!paused.has(id)) this.frozen.delete(id);
    setImmediate(() => paused.forEach((on, id) => this.tell(id, on)));
  }

  private tell(id: string, on: boolean): void {
    if (this.listener === null || this.frozen.has(id) === on) return;
    if (on) this.frozen.add(id);
    else this.frozen.delete(id);
    this.listener.frozen?.(id, on);
  }
}
