import { AgentZipError, explain } from '../errors.js';
import { O_CLOEXEC, O_CREAT, O_RDWR, open, tryLock } from '../native/files.js';
import { Engine } from './engine.js';
import { clearRemains, prepareFrontEnd } from './front-ends.js';
import { lockMemory } from './process/locked-memory.js';
import { pagerLock, pagerSocket, type PagerOptions } from './options.js';

import { PAGE } from '../native/libc.js';
import { PagerService } from './service.js';
import { standBy } from './succession/standby.js';
import type { Succession } from './succession/succession.js';
import { swapOn, takenAway } from './swap/swap-on.js';
import { createTier, type Tier } from './swap/tier.js';

/**
 * The pager: serves a swap device from the page store until it is drained. It goes on whatever happens to the
 * controller, and it never leaves while swap is on. With a second argument: its standby.
 */
const log = (line: string): void => void process.stderr.write(`agentzip-pager: ${line}\n`);

function takeLock(runtimeDir: string): number {
  const fd = open(pagerLock(runtimeDir), O_RDWR | O_CREAT | O_CLOEXEC, 0o600);
  if (!tryLock(fd))
    throw new AgentZipError('AZ_ALREADY_RUNNING', { pid: '?', socket: pagerSocket(runtimeDir) });
  return fd;
}

async function start(options: PagerOptions): Promise<PagerService> {
  lockMemory();
  const lockFd = takeLock(options.runtimeDir);
  for (const remains of await clearRemains(options.runtimeDir))
    log(`removed what a dead pager left: ${remains}`);
  const { frontEnd, channel, choice } = prepareFrontEnd(options);
  log(`front end ${choice.frontEnd}: ${choice.reason}`);
  let tier: Tier | undefined;
  try {
    const engine = await Engine.start(options, channel);
    await frontEnd.attach();
    const bytes = engine.tables.slots * PAGE;
    tier = await createTier(options.tier, options.runtimeDir, frontEnd.device, bytes, options.zswap);
    const swapType = await swapOn(tier, engine.tables, () => frontEnd.settle());
    const service = new PagerService({
      ...{ options, engine, frontEnd, tier, choice, channel, lockFd, swapType, log },
      takeovers: 0,
    });
    await service.serve();
    service.complete();
    log(`ready: ${tier.device}, swap type ${swapType}`);
    return service;
  } catch (error) {
    if (tier !== undefined) await takenAway(tier);
    await frontEnd.detach();
    throw error;
  }
}

process.on('SIGHUP', () => {}); // outlives whoever started it
process.title = 'agentzip-pager';
const options = JSON.parse(process.argv[2]) as PagerOptions;
const succession = process.argv[3] === undefined ? null : (JSON.parse(process.argv[3]) as Succession);
const running = succession === null ? start(options) : standBy(options, succession, log);
running
  .then((service) => service.ended)
  .catch((error) => {
    log(explain(error));
    process.exit(1);
  });
