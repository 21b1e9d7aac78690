import { Socket } from 'node:net';
import { explain } from '../../errors.js';
import { answered } from '../../native/block-device.js';
import { close } from '../../native/files.js';
import { pidfdGetfd, pidfdKill, pidfdOpen, setThreadPriority } from '../../native/process.js';
import { exitNow } from '../../native/spawn.js';
import type { ChannelPlan } from '../requests/channel.js';
import { Engine } from '../engine.js';
import { adoptFrontEnd, hasUnread, inheritChannel } from '../front-ends.js';
import { bringIn, lockMemory } from '../process/locked-memory.js';
import type { PagerOptions } from '../options.js';
import { PagerService } from '../service.js';
import { adoptTier } from '../swap/tier.js';
import { hold } from '../swap/tier-change.js';
import type { TierName } from '../swap/tier.js';
import {
  Lifeline,
  LIFELINE_FD,
  type LifelineMessage,
  type Succession,
  type SwapState,
} from './succession.js';
import { STANDBY_PATIENCE, waitingAt, Watchdog } from './watchdog.js';

/** While it waits it does next to nothing; then every fault waits for it. */
const NICE = { waiting: -20, serving: 0 };

/** Copies of the pager's descriptors: channel, store and lock live on with us when it dies. `pager`: its pidfd. */
function inherit(
  pager: number,
  { channel, storeFd, lockFd }: Succession,
): [ChannelPlan, storeFd: number, lockFd: number] {
  return [inheritChannel(channel, pager), pidfdGetfd(pager, storeFd), pidfdGetfd(pager, lockFd)];
}

/** Follows what the pager says until it is over. */
class Vigil {
  draining = false;
  /** The tier that the pager is putting before the device. */
  changing: TierName | null = null;
  swap: SwapState;
  engine: Engine | undefined;
  readonly lifeline: Lifeline;
  private letGo: (() => void) | null = null;

  constructor(private readonly succession: Succession) {
    this.swap = succession;
    this.lifeline = new Lifeline(new Socket({ fd: LIFELINE_FD }), (message) => this.hear(message));
    void this.lifeline.closed.then(() => {
      // Without the store there is nothing to go on with.
      if (this.engine === undefined) exitNow(1);
    });
  }

  private hear(message: LifelineMessage): void {
    if (message.op === 'farewell') exitNow(0);
    if (message.op === 'draining') this.draining = message.draining;
    if (message.op === 'swap') this.swap = message.swap;
    if (message.op === 'changing') this.follow(message.to);
    if (message.op === 'dropPack') this.engine?.foresee(message.pack, null);
    if (message.op === 'pack') {
      try {
        this.engine?.foresee(message.pack, message.path);
      } catch (error) {
        process.stderr.write(`agentzip-standby: ${explain(error)}\n`);
      }
    }
  }

  /** While the device is no swap, and whoever serves it dies, it must not go. */
  private follow(to: TierName | null): void {
    this.changing = to;
    this.release();
    try {
      if (to !== null) this.letGo = hold(this.succession.device);
    } catch (error) {
      process.stderr.write(`agentzip-standby: ${explain(error)}\n`);
    }
  }

  release(): void {
    this.letGo?.();
    this.letGo = null;
  }
}

/**
 * Ends the pager when its device answers nothing: stopped as a whole (SIGSTOP, a debugger) it can not see that it hangs.
 * The device is asked, for the pager itself can tell nothing then. Returns what ends the watch.
 */
function watch(pager: number, succession: Succession, log: (line: string) => void): () => void {
  const { pid, device, channel } = succession;
  const watched = {
    answered: () => answered(device),
    waiting: () => waitingAt(device, hasUnread(channel, pager)),
  };
  const end = (): void => {
    log(`pager ${pid} answers nothing and does not end itself: its standby ends it`);
    try {
      pidfdKill(pager); // which a process that is stopped obeys, too
    } catch (error) {
      log(explain(error)); // it has just ended by itself
    }
  };
  return new Watchdog(watched, end, STANDBY_PATIENCE).start();
}

/**
 * Waits beside the pager and takes its place when it dies. Descriptors are copied only when all memory is locked and
 * present: whoever holds them keeps the device alive, and must never wait for it.
 */
export async function standBy(
  options: PagerOptions,
  succession: Succession,
  log: (line: string) => void,
): Promise<PagerService> {
  process.title = 'agentzip-standby';
  // A service manager may tell all of a service's processes to end: the pager drains, and then dismisses us.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
  const vigil = new Vigil(succession);
  lockMemory();
  bringIn();
  const pager = pidfdOpen(succession.pid);
  const [channel, storeFd, lockFd] = inherit(pager, succession);
  const engine = await Engine.standBy(options, channel, storeFd, succession.pid);
  vigil.engine = engine;
  raise(NICE.waiting);
  vigil.lifeline.say({ op: 'ready' });

  const endWatch = watch(pager, succession, log);
  void vigil.lifeline.closed.then(endWatch); // it has ended
  const started = await engine.started;
  endWatch();
  close(pager);
  engine.takeOver(started);
  process.title = 'agentzip-pager';
  const { device, choice } = succession;
  const { swapType, swapDevice } = vigil.swap;
  const frontEnd = adoptFrontEnd(channel, options, device);
  const tier = adoptTier(vigil.swap.tier, options.runtimeDir, swapDevice);
  const takeovers = succession.takeovers + 1;
  const service = new PagerService({
    options,
    engine,
    frontEnd,
    tier,
    choice,
    channel,
    lockFd,
    swapType,
    takeovers,
    log,
  });
  // Whoever asks is answered once it has come to an end.
  const changing = (vigil.changing === null ? Promise.resolve() : service.finishChange(vigil.changing))
    .catch((error: unknown) => log(`tier not changed: ${explain(error)}`))
    .finally(() => vigil.release());
  await service.serve();
  raise(NICE.serving); // before threads and programs are started, which inherit it
  service.complete();
  const { slots, takeoverMs, resent } = started;
  const requests = resent ? '' : '; the kernel can not send its last requests again (before 6.9)';
  log(
    `took over ${device} from pager ${succession.pid}: ${slots} pages, ${takeoverMs.toFixed(1)} ms${requests}`,
  );
  await changing;
  if (vigil.draining) {
    log('goes on with its drain');
    service.leaveOrSay();
  }
  return service;
}

function raise(nice: number): void {
  try {
    setThreadPriority(process.pid, nice);
  } catch {
    // Not permitted: it then waits its turn.
  }
}
