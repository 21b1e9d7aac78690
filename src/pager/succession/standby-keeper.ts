import { readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { explain } from '../../errors.js';
import { close } from '../../native/files.js';
import { socketPair } from '../../native/sockets.js';
import { reap, spawnProgram } from '../../native/spawn.js';
import type { PagerOptions } from '../options.js';
import { pagerCommand } from '../process/program.js';
import type { TierName } from '../swap/tier.js';
import { Lifeline, type LifelineMessage, type Succession, type SwapState } from './succession.js';

/** A standby that dies is replaced after the first time, then each time after twice as long, up to the last. */
const PAUSE_MS = { first: 100, last: 30_000 };
/** One that lived so long has no fault of its own. */
const SOUND_MS = 10_000;
/** One that is not ready by then is stuck, or has no processor: the next has twice as long, up to the last. */
const READY_MS = { first: 120_000, last: 3_600_000 };
const FAREWELL_MS = 1_000;
/** One of another build is given up when it is not ready by then: somebody waits for it. */
const CHANGE_MS = 30_000;
const REAP_MS = 50;

interface Standby {
  pid: number;
  command: readonly string[];
  lifeline: Lifeline;
  startedAt: number;
  ready: boolean;
}

/** The pager's side of its standby: starts one, tells it what it must know, and replaces it when it dies. */
export class StandbyKeeper {
  private standby: Standby | undefined;
  private pauseMs = PAUSE_MS.first;
  private readyMs = READY_MS.first;
  private dismissed = false;
  /** Starts a standby; that of another build while it is to take our place. */
  private readonly own = pagerCommand();
  private command = this.own;
  /** What the standby that ended last was started with. */
  private mourned: readonly string[] | undefined;
  private draining = false;
  private changing: TierName | null = null;
  private readonly packs = new Map<number, string>();

  constructor(
    private readonly options: PagerOptions,
    private succession: Succession,
    private readonly log: (line: string) => void,
  ) {}

  /** The standby that could take over now, or null. */
  get readyPid(): number | null {
    return this.standby?.ready === true ? this.standby.pid : null;
  }

  start(): void {
    if (this.dismissed || this.standby !== undefined) return;
    if (!this.options.standby && this.command === this.own) return;
    try {
      this.standby = this.spawn();
    } catch (error) {
      this.log(`no standby (${explain(error)}): trying again in ${this.pauseMs} ms`);
      void this.startLater();
    }
  }

  pack(pack: number, path: string | null): void {
    if (path === null) this.packs.delete(pack);
    else this.packs.set(pack, path);
    this.tell(path === null ? { op: 'dropPack', pack } : { op: 'pack', pack, path });
  }

  drains(draining: boolean): void {
    this.draining = draining;
    this.tell({ op: 'draining', draining });
  }

  /** Another tier is being put before the device; null: no more. */
  changes(to: TierName | null): void {
    this.changing = to;
    this.tell({ op: 'changing', to });
  }

  swapIs(swap: SwapState): void {
    this.succession = { ...this.succession, ...swap };
    this.tell({ op: 'swap', swap });
  }

  /**
   * Has a standby of another build in place of ours; returns its pid when it can take over. Error: why it could not, and ours
   * is started again. Meanwhile, a second or two, nobody could take over.
   */
  async change(command: string[]): Promise<number> {
    const before = this.standby;
    this.command = command;
    this.mourned = undefined;
    if (before === undefined) this.start();
    else if (before.ready) before.lifeline.say({ op: 'farewell' });
    else process.kill(before.pid, 'SIGKILL');
    for (let waited = 0; waited < CHANGE_MS && this.mourned !== command; waited += REAP_MS) {
      const { standby } = this;
      if (standby?.command === command && standby.ready) return standby.pid;
      await sleep(REAP_MS);
    }
    this.command = this.own;
    if (this.standby?.command === command) process.kill(this.standby.pid, 'SIGKILL');
    throw new Error(this.mourned === command ? 'its standby ended' : 'its standby did not get ready in time');
  }

  /** Lets the standby go, for good. Resolves when it has gone, or does not answer. */
  async dismiss(): Promise<void> {
    this.dismissed = true;
    const { standby } = this;
    if (standby === undefined) return;
    standby.lifeline.say({ op: 'farewell' });
    const gone = await Promise.race([standby.lifeline.closed.then(() => true), sleep(FAREWELL_MS, false)]);
    // One that has not come so far as to listen holds nothing yet; a ready one must not take the device now.
    if (!gone) process.kill(standby.pid, 'SIGKILL');
  }

  private spawn(): Standby {
    const [ours, theirs] = socketPair();
    const { command } = this;
    let pid: number;
    try {
      const words = [...command, JSON.stringify(this.options), JSON.stringify(this.succession)];
      // What the launcher has set (seccomp filter, cgroup, oom_score_adj, I/O flusher) is inherited.
      pid = spawnProgram(command[0], words, process.env, [0, 1, 2, theirs]);
    } catch (error) {
      close(ours);
      throw error;
    } finally {
      close(theirs);
    }
    const lifeline = new Lifeline(new Socket({ fd: ours }), (message) => {
      if (message.op === 'ready') this.welcome(standby);
    });
    const standby: Standby = { pid, command, lifeline, startedAt: performance.now(), ready: false };
    void lifeline.closed.then(() => this.mourn(standby));
    setTimeout(() => {
      if (standby.ready || this.standby !== standby) return;
      this.readyMs = Math.min(2 * this.readyMs, READY_MS.last);
      process.kill(pid, 'SIGKILL');
    }, this.readyMs).unref();
    return standby;
  }

  private welcome(standby: Standby): void {
    for (const [pack, path] of this.packs) standby.lifeline.say({ op: 'pack', pack, path });
    const { tier, swapDevice, swapType } = this.succession;
    standby.lifeline.say({ op: 'swap', swap: { tier, swapDevice, swapType } });
    standby.lifeline.say({ op: 'changing', to: this.changing });
    standby.lifeline.say({ op: 'draining', draining: this.draining });
    standby.ready = true;
    this.readyMs = READY_MS.first;
    this.log(`standby ${standby.pid} is ready, ${residentMib(standby.pid)} MiB resident`);
  }

  private async mourn(standby: Standby): Promise<void> {
    this.standby = undefined;
    for (let waited = 0; !reap(standby.pid) && waited < FAREWELL_MS; waited += REAP_MS) await sleep(REAP_MS);
    this.mourned = standby.command;
    if (this.dismissed) return;
    if (performance.now() - standby.startedAt >= SOUND_MS) this.pauseMs = PAUSE_MS.first;
    this.log(`standby ${standby.pid} has ended: starting another in ${this.pauseMs} ms`);
    await this.startLater();
  }

  private async startLater(): Promise<void> {
    const { pauseMs } = this;
    this.pauseMs = Math.min(2 * pauseMs, PAUSE_MS.last);
    await sleep(pauseMs);
    this.start();
  }

  private tell(message: LifelineMessage): void {
    if (this.standby?.ready === true) this.standby.lifeline.say(message);
  }
}

/** What a process takes for itself: anonymous memory, locked or not. */
function residentMib(pid: number): number {
  const kib = /RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return Math.round(Number(kib) / 1024);
}
