import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AgentZipError, explain } from '../errors.js';
import type { BpfMap } from '../native/bpf.js';
import { packageRoot } from '../paths.js';
import { attachAll, attachFaults, type Attached, type AttachOptions } from './attach.js';
import { deliver, EVENT_KINDS, type EventKind, type TelemetrySink } from './events.js';
import { MappedRing } from './ring.js';
import { Wakeups } from './wakeups.js';

const DEFAULTS: AttachOptions = {
  objectPath: join(packageRoot, 'bpf/sandbox.bpf.o'),
  btfPath: '/sys/kernel/btf/vmlinux',
  library: 'libbpf.so.1',
  ringBytes: 4 << 20,
};

/** Order of `enum reason` in bpf/sandbox.bpf.c. */
const DROP_REASONS = ['ringFull', 'trackedFull'] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export interface ProbeStats {
  /** Delivered to the sink. */
  events: number;
  /** Lost because the ring was full: events so far = `events` + `dropped` + those still in the ring. */
  dropped: number;
  /** Since load, by reason. `trackedFull`: children that could not join, all they do goes unseen. */
  droppedBy: Record<DropReason, number>;
  /** What tracked processes did since load, delivered or not. */
  byKind: Record<EventKind, number>;
}

interface LoadOptions extends AttachOptions {
  /** Whether page faults are probed from the start; default: yes. */
  faults: boolean;
}

interface Live extends Attached {
  options: AttachOptions;
  /** The programs of page faults; null: they do not run. */
  faults: Attached | null;
  tracked: BpfMap;
  seen: BpfMap;
  dropped: BpfMap;
  armed: BpfMap;
  endpoints: BpfMap;
  inbound: BpfMap;
  cgroups: BpfMap;
  ring: MappedRing;
  ringFd: number;
}

/** Whether the process can still do anything: no zombie, and not past the point where its exit was reported. */
function isAlive(pid: number): boolean {
  const PF_EXITING = 4;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The command name in parentheses may hold anything; fields after it: state is 0, flags 6, threads 17.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[6]) & PF_EXITING) === 0 || Number(fields[17]) > 1;
  } catch {
    return false;
  }
}

const cgroupKey = (id: bigint): Uint8Array => new Uint8Array(new BigUint64Array([id]).buffer);

function counts<K extends string>(names: readonly K[], map: BpfMap | undefined): Record<K, number> {
  return Object.fromEntries(names.map((name, key) => [name, map?.sum(key) ?? 0])) as Record<K, number>;
}

/**
 * The eBPF probes: page faults, forks, execs and exits of tracked processes, and what they send to and receive from models,
 * delivered by polling; a wake-up says that there is news that should not wait for the next poll. Without BTF, libbpf or
 * the privilege it does nothing, and `warnings` says why; a program that alone is refused is missing from `attached`.
 */
export class Probes {
  private events = 0;
  private faultRefusals: string[] = [];
  private ran: readonly string[] | null = null;
  private final: ProbeStats | null = null;
  private sink: TelemetrySink | null = null;
  private wakeups: Wakeups | null = null;
  private readonly visit = (words: Uint32Array, at: number): void => deliver(words, at, this.sink!);

  private constructor(
    private live: Live | null,
    private readonly refusals: readonly string[],
  ) {}

  /** Never throws for what the host lacks. `ringBytes`: from a page to 1 GiB. */
  static load({ faults = true, ...given }: Partial<LoadOptions> = {}): Probes {
    const options = { ...DEFAULTS, ...given };
    const warnings: string[] = [];
    const found = attachAll(options, warnings);
    if (found === null) return new Probes(null, warnings);
    const { object } = found;
    try {
      const ringMap = object.map('ring');
      const live: Live = {
        ...found,
        options,
        faults: null,
        tracked: object.map('tracked'),
        seen: object.map('seen'),
        dropped: object.map('dropped'),
        armed: object.map('armed'),
        endpoints: object.map('endpoints'),
        inbound: object.map('inbound'),
        cgroups: object.map('cgroups'),
        ring: new MappedRing(ringMap.fd, ringMap.maxEntries),
        ringFd: ringMap.fd,
      };
      const probes = new Probes(live, warnings);
      if (faults) probes.watchFaults();
      return probes;
    } catch (error) {
      object.close();
      return new Probes(null, [...warnings, explain(error)]);
    }
  }

  /** Programs that run, named as in bpf/sandbox.bpf.c; after `close` those that did. */
  get attached(): readonly string[] {
    return this.ran ?? [...(this.live?.attached ?? []), ...(this.live?.faults?.attached ?? [])];
  }

  /** Each names the cause and the remedy. */
  get warnings(): readonly string[] {
    return [...this.refusals, ...this.faultRefusals];
  }

  /** Page faults make events from now on. False, with a warning: on this host none can. */
  watchFaults(): boolean {
    const { live } = this;
    if (live === null) return false;
    if (live.faults === null) {
      this.faultRefusals = [];
      live.faults = attachFaults(live.options, live.object, this.faultRefusals);
    }
    return live.faults !== null;
  }

  /** They make none any more, and cost nothing. */
  ignoreFaults(): void {
    this.faultRefusals = [];
    this.live?.faults?.object.close();
    if (this.live !== null) this.live.faults = null;
  }

  /**
   * Watches a process; `tag` (u32) comes back with each of its events. Children forked from now on join by themselves.
   * Those it has already do not: track it first, then list its children and track each, so that none slips through.
   * A process tracked already gets the new tag.
   * @returns false when there is no such process any more, or no probe runs
   */
  track(pid: number, tag: number): boolean {
    if (this.live === null) return false;
    try {
      this.live.tracked.update(pid, tag);
    } catch (cause) {
      const reason = explain(cause);
      const remedy = `at most ${this.live.tracked.maxEntries} processes can be watched`;
      throw new AgentZipError(
        'AZ_PROBE_FAILED',
        { probe: `pid ${pid}`, step: 'tracked', reason, remedy },
        { cause },
      );
    }
    // After the insertion: an exit from here on removes the entry, one before must not leave it to the pid's next owner.
    if (isAlive(pid)) return true;
    this.live.tracked.delete(pid);
    return false;
  }

  /** Events from before may still arrive. Harmless for a process that is not tracked. */
  untrack(pid: number): void {
    this.live?.tracked.delete(pid);
  }

  /** Pids at about this moment, of one tag or of all. */
  tracked(tag?: number): number[] {
    const { tracked } = this.live ?? {};
    const pids = tracked?.keys() ?? [];
    return tag === undefined ? pids : pids.filter((pid) => tracked?.get(pid) === tag);
  }

  /** Tag of a process that is tracked; null: it is not. */
  tagOf(pid: number): number | null {
    return this.live?.tracked.get(pid) ?? null;
  }

  /** Whether forks, execs and arrivals of a tag's sandbox are news that wakes. */
  arm(tag: number, on: boolean): void {
    this.live?.armed.update(tag, on ? 1 : 0);
  }

  /** Connections that tracked processes open to it, or send on, from now on make events. Keys of {@link endpointKey}. */
  addEndpoint(key: Uint8Array): void {
    this.live?.endpoints.updateBytes(key, 1);
  }

  /** Connections that were seen keep making events. */
  removeEndpoint(key: Uint8Array): void {
    this.live?.endpoints.deleteBytes(key);
  }

  /** Requests that tracked processes read at this port of theirs make events. */
  addInbound(port: number): void {
    this.live?.inbound.update(port, 1);
  }

  removeInbound(port: number): void {
    this.live?.inbound.delete(port);
  }

  /** Processes that are brought into this cgroup from now on are tracked. `id`: inode of its folder. */
  addCgroup(id: bigint, tag: number): void {
    this.live?.cgroups.updateBytes(cgroupKey(id), tag);
  }

  removeCgroup(id: bigint): void {
    this.live?.cgroups.deleteBytes(cgroupKey(id));
  }

  /** Calls back, some 0.1 ms after it, whenever there is news; one listener, until `close`. The process lives on meanwhile. */
  onNews(listener: () => void): void {
    if (this.live !== null) this.wakeups ??= new Wakeups(this.live.ringFd, listener);
  }

  /** Whether `poll` would find something; two loads from memory. */
  get pending(): boolean {
    return this.live !== null && this.live.ring.reader.pendingBytes > 0;
  }

  /**
   * Delivers what happened since the last call, in order, at most one ring full.
   * @returns events delivered
   */
  poll(sink: TelemetrySink): number {
    if (this.live === null) return 0;
    this.sink = sink;
    const count = this.live.ring.reader.drain(this.visit);
    this.events += count;
    return count;
  }

  /** After `close`: what it was then. */
  stats(): ProbeStats {
    if (this.final !== null) return this.final;
    const droppedBy = counts(DROP_REASONS, this.live?.dropped);
    const byKind = counts(EVENT_KINDS, this.live?.seen);
    return { events: this.events, dropped: droppedBy.ringFull, droppedBy, byKind };
  }

  /** Detaches everything. Afterwards nothing is tracked and nothing arrives. Harmless when repeated. */
  close(): void {
    const live = this.live;
    this.final = this.stats();
    this.ran = this.attached;
    this.live = null;
    this.wakeups?.close();
    this.wakeups = null;
    live?.ring.unmap();
    live?.faults?.object.close();
    live?.object.close();
  }
}
