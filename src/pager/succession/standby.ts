import { Socket } from 'node:net';
import { explain } from '../../errors.js';
import { close } from '../../native/files.js';
import { pidfdGetfd, pidfdOpen, setThreadPriority } from '../../native/process.js';
import { exitNow } from '../../native/spawn.js';
import type { ChannelPlan } from '../requests/channel.js';
import { Engine } from '../engine.js';
import { adoptFrontEnd, inheritChannel } from '../front-ends.js';
import { bringIn, lockMemory } from '../process/locked-memory.js';
import type { PagerOptions } from '../options.js';
import { PagerService } from '../service.js';
import { adoptTier } from '../swap/tier.js';
import { Lifeline, LIFELINE_FD, type LifelineMessage, type Succession } from './succession.js';

/** While it waits it does nothing; then every fault waits for it. */
const NICE = { waiting: -20, serving: 0 };

/** Copies of the pager's descriptors: channel, store and lock live on with us when it dies. */
function inherit({ pid, channel, storeFd, lockFd }: Succession): [ChannelPlan, number, number] {
  const pager = pidfdOpen(pid);
  try {
    return [inheritChannel(channel, pager), pidfdGetfd(pager, storeFd), pidfdGetfd(pager, lockFd)];
  } finally {
    close(pager);
  }
}

/** Follows what the pager says until it is over. */
class Vigil {
  draining = false;
  engine: Engine | undefined;
  readonly lifeline: Lifeline;

  constructor() {
    this.lifeline = new Lifeline(new Socket({ fd: LIFELINE_FD }), (message) => this.hear(message));
    void this.lifeline.closed.then(() => {
      // Without the store there is nothing to go on with.
      if (this.engine === undefined) exitNow(1);
    });
  }

  private hear(message: LifelineMessage): void {
    if (message.op === 'farewell') exitNow(0);
    if (message.op === 'draining') this.draining = message.draining;
    if (message.op === 'dropPack') this.engine?.foresee(message.pack, null);
    if (message.op === 'pack') {
      try {
        this.engine?.foresee(message.pack, message.path);
      } catch (error) {
        process.stderr.write(`agentzip-standby: ${explain(error)}\n`);
      }
    }
  }
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
  const vigil = new Vigil();
  lockMemory();
  bringIn();
  const [channel, storeFd, lockFd] = inherit(succession);
  const engine = await Engine.standBy(options, channel, storeFd, succession.pid);
  vigil.engine = engine;
  raise(NICE.waiting);
  vigil.lifeline.say({ op: 'ready' });

  const started = await engine.started;
  engine.takeOver(started);
  process.title = 'agentzip-pager';
  const { device, choice, swapType } = succession;
  const frontEnd = adoptFrontEnd(channel, options, device);
  const tier = adoptTier(options.tier, options.runtimeDir, succession.swapDevice);
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
  await service.serve();
  raise(NICE.serving); // before threads and programs are started, which inherit it
  service.complete();
  const { slots, takeoverMs, resent } = started;
  const requests = resent ? '' : '; the kernel can not send its last requests again (before 6.9)';
  log(
    `took over ${device} from pager ${succession.pid}: ${slots} pages, ${takeoverMs.toFixed(1)} ms${requests}`,
  );
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
