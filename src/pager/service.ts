import { rmSync } from 'node:fs';
import { AgentZipError, explain } from '../errors.js';
import { version } from '../paths.js';
import { FORMAT_VERSION } from '../store/layout.js';
import { Counter } from '../store/volatile.js';
import type { ChannelPlan } from './requests/channel.js';
import { createHandlers, slotHandlersOf, type Handlers } from './control.js';
import { serveControl } from './control-server.js';
import type { Engine } from './engine.js';
import type { FrontEnd } from './front-end.js';
import type { FrontEndChoice } from './front-end-choice.js';
import { pagerSocket, type PagerOptions } from './options.js';
import { PROTOCOL, type Op, type PagerInfo, type Requests } from './protocol.js';
import { StandbyKeeper } from './succession/standby-keeper.js';
import { allIn } from './swap/tier-change.js';
import { TierKeeper } from './swap/tier-keeper.js';
import type { Tier, TierName } from './swap/tier.js';
import { waitingAt, Watchdog } from './succession/watchdog.js';

/** Pages that nobody has claimed by then, or twice as long, are made smaller. */
const TIDY_MS = 5_000;
/** The answer to a drain is written before the process ends. */
const ANSWER_MS = 50;

const refusal = (request: Op, reason: string): AgentZipError =>
  new AgentZipError('AZ_PAGER_REFUSED', { request, reason });

/** A device that is swap and is served, and all that belongs to it. */
export interface Charge {
  options: PagerOptions;
  engine: Engine;
  frontEnd: FrontEnd;
  tier: Tier;
  channel: ChannelPlan;
  choice: FrontEndChoice;
  lockFd: number;
  swapType: number;
  takeovers: number;
  log: (line: string) => void;
}

/** What a pager does from the moment its device is swap: answers the controller, keeps a standby, drains. */
export class PagerService {
  private readonly keeper: StandbyKeeper;
  private readonly info: PagerInfo;
  private readonly handlers: Handlers;
  private draining: Promise<void> | undefined;
  private readonly tiers: TierKeeper;
  private drained = false;

  constructor(private readonly charge: Charge) {
    const { engine, frontEnd, tier, choice, channel, lockFd, swapType, takeovers, options, log } = charge;
    const { device } = frontEnd;
    const { pid } = process;
    this.info = {
      pid,
      version,
      protocol: PROTOCOL,
      storeFormat: FORMAT_VERSION,
      device: tier.device,
      tier: tier.name,
      swapType,
      slots: engine.tables.slots,
      takeovers,
      frontEnd: choice.frontEnd,
      frontEndReason: choice.reason,
    };
    const { storeFd } = engine;
    const swapDevice = tier.device;
    const swap = { tier: tier.name, swapDevice, swapType };
    const succession = { pid, channel, choice, storeFd, lockFd, device, takeovers, ...swap };
    this.keeper = new StandbyKeeper(options, succession, log);
    for (const [path, pack] of engine.tables.packs.entries()) this.keeper.pack(pack, path);
    engine.packChanged = (pack, path) => this.keeper.pack(pack, path);
    this.handlers = createHandlers(engine, this.info, {
      drain: () => this.leave(),
      replace: (successor) => this.replace(successor),
      changeTier: (request) => this.changeTier(request),
      settled: () => this.tiers.settled(),
      standbyPid: () => this.keeper.readyPid,
    });
    this.tiers = new TierKeeper(charge, this.info, this.keeper, (tier) =>
      Object.assign(this.handlers, slotHandlersOf(tier, engine)),
    );
  }

  /** Serves the control socket, in the place of one that is there. */
  async serve(): Promise<void> {
    await serveControl(pagerSocket(this.charge.options.runtimeDir), this.handlers);
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.removeAllListeners(signal);
      process.on(signal, () => this.leaveOrSay());
    }
  }

  /** Starts what costs time and is not waited for: refine workers and a standby. */
  complete(): void {
    const { engine, frontEnd } = this.charge;
    engine.employAll();
    setInterval(() => engine.queue.tidy(), TIDY_MS).unref();
    this.keeper.start();
    const { counters } = engine.shared;
    const kinds = [Counter.READS, Counter.WRITES, Counter.DISCARDS, Counter.REFUSED];
    const watched = {
      answered: () => kinds.reduce((sum: number, kind) => sum + counters[kind], 0),
      waiting: () => waitingAt(frontEnd.device, frontEnd.hasUnread?.() === true),
    };
    new Watchdog(watched, () => this.giveWay()).start();
  }

  /** The data loop answers nothing any more. Whoever waits for it can be helped by another process alone. */
  private giveWay(): void {
    const standby = this.keeper.readyPid;
    this.charge.log(
      `the data loop hangs: ${standby === null ? 'and there is no standby' : `pid ${standby} takes over`}`,
    );
    // With all threads, one of which can not be asked to end.
    if (standby !== null) process.kill(process.pid, 'SIGKILL');
  }

  /** See Requests.replace. */
  private async replace(successor: Requests['replace']['request']): Promise<void> {
    // Asked again, by a client that found the new pager in the old one's place.
    if (successor.version === version) return;
    this.refuseReplacing();
    const { log, engine } = this.charge;
    let pid: number;
    try {
      pid = await this.keeper.change(successor.command);
    } catch (error) {
      log(`version ${successor.version} could not take over: ${explain(error)}`);
      throw refusal('replace', `version ${successor.version} could not take over: ${explain(error)}`);
    }
    this.refuseReplacing();
    log(`version ${version} gives way to version ${successor.version}, pid ${pid}`);
    await engine.request({ op: 'giveWay' });
  }

  private refuseReplacing(): void {
    if (this.leaves) throw refusal('replace', 'it drains');
    if (this.tiers.underWay) throw refusal('replace', 'it changes its tier');
  }

  private get leaves(): boolean {
    return this.draining !== undefined || this.drained;
  }

  /** Brings the change of the tier that a pager which died had begun to its end. */
  finishChange(to: TierName): Promise<void> {
    return this.tiers.finish(to);
  }

  private changeTier(request: Requests['changeTier']['request']): Promise<void> {
    if (!this.leaves) return this.tiers.change(request);
    return Promise.reject(refusal('changeTier', 'it drains'));
  }

  leaveOrSay(): void {
    this.leave().catch((error) => this.charge.log(`not leaving: ${explain(error)}`));
  }

  /** Drains, then ends the process; rejects, and stays, when the memory does not suffice. */
  private async leave(): Promise<void> {
    await (this.draining ??= this.drain().finally(() => (this.draining = undefined)));
    setTimeout(() => this.finish(0), ANSWER_MS);
  }

  /** Resolves, or ends the process, when the device is gone; rejects when the data loop has died. */
  get ended(): Promise<void> {
    return this.charge.engine.ended.then(() => this.deviceGone());
  }

  /** Unless we are draining it was taken away (`umount -f`, an aborted FUSE connection). */
  private async deviceGone(): Promise<void> {
    if (this.leaves) return;
    this.charge.log('the device is gone: somebody else took it away');
    await this.keeper.dismiss();
    this.finish(1);
  }

  private async drain(): Promise<void> {
    await this.tiers.settled();
    const { frontEnd, options } = this.charge;
    this.tiers.checkRoom();
    this.keeper.drains(true);
    try {
      await allIn(options.runtimeDir, frontEnd.device);
    } catch (error) {
      this.keeper.drains(false);
      throw error;
    }
    await this.keeper.dismiss();
    await frontEnd.detach();
    this.drained = true;
  }

  private finish(status: number): never {
    const { engine, options } = this.charge;
    engine.urgency.end();
    // The lock's file stays: removing it would let two pagers lock two files of one name.
    rmSync(pagerSocket(options.runtimeDir), { force: true });
    process.exit(status);
  }
}
