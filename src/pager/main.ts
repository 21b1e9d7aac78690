import { rmSync } from 'node:fs';
import { AgentZipError, explain } from '../errors.js';
import { O_CLOEXEC, O_CREAT, O_RDWR, open, tryLock } from '../native/files.js';
import { mlockall } from '../native/memory.js';
import { swapoff } from '../native/system.js';
import { version } from '../paths.js';
import { createHandlers } from './control.js';
import { serveControl } from './control-server.js';
import { countStore } from './accounting.js';
import { Engine } from './engine.js';
import type { FrontEnd } from './front-end.js';
import { FuseLoop, openFuse } from './fuse-loop.js';
import { pagerLock, pagerMount, pagerSocket, type PagerOptions } from './options.js';
import { clearRemains } from './remains.js';
import { availableBytes, checkRoom } from './room.js';
import { LOCK_FLAGS } from './seccomp.js';
import { activateSwap } from './swap-area.js';
import { probeSwapType } from './swap-type.js';

/**
 * The pager: serves a swap device from the page store until it is drained. It goes on whatever happens to the
 * controller, and it never leaves while swap is on.
 */
const log = (line: string): void => void process.stderr.write(`agentzip-pager: ${line}\n`);

function lockMemory(): void {
  try {
    mlockall(LOCK_FLAGS);
  } catch (error) {
    log(
      `memory can not be locked (${(error as Error).message}): the pager must not run where it can be swapped out`,
    );
    throw error;
  }
}

let locked = false;

function takeLock(runtimeDir: string): void {
  locked = tryLock(open(pagerLock(runtimeDir), O_RDWR | O_CREAT | O_CLOEXEC, 0o600));
  if (!locked) throw new AgentZipError('AZ_ALREADY_RUNNING', { pid: '?', socket: pagerSocket(runtimeDir) });
}

async function main(options: PagerOptions): Promise<void> {
  lockMemory();
  takeLock(options.runtimeDir);
  for (const remains of await clearRemains(pagerMount(options.runtimeDir)))
    log(`removed what a dead pager left: ${remains}`);
  const fuseFd = openFuse();
  const frontEnd: FrontEnd = new FuseLoop(fuseFd, pagerMount(options.runtimeDir));
  frontEnd.prepare();
  const engine = await Engine.start(options, fuseFd);
  let swapping = false;
  let draining: Promise<void> | undefined;

  const drainOnce = async (): Promise<void> => {
    if (swapping) {
      checkRoom(countStore(engine.tables).usedSlots, availableBytes());
      await swapoff(frontEnd.device);
      swapping = false;
    }
    await frontEnd.detach();
  };
  const drain = (): Promise<void> => (draining ??= drainOnce().finally(() => (draining = undefined)));

  try {
    await frontEnd.attach();
    await activateSwap(frontEnd.device, engine.tables.slots);
    swapping = true;
    frontEnd.settle();
    const info = {
      pid: process.pid,
      version,
      device: frontEnd.device,
      swapType: await probeSwapType((slot) => engine.tables.slotObject[slot] !== 0),
      slots: engine.tables.slots,
    };
    const leave = async (): Promise<void> => {
      await drain();
      // Answer first: the reply is written when this turn of the event loop is over.
      setTimeout(() => finish(options.runtimeDir, 0), 50);
    };
    await serveControl(pagerSocket(options.runtimeDir), createHandlers(engine, info, leave));
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => leave().catch((error) => log(`not leaving: ${explain(error)}`)));
    }
    log(`ready: ${frontEnd.device}, swap type ${info.swapType}`);
  } catch (error) {
    await drain();
    throw error;
  }
  await engine.ended;
}

function finish(runtimeDir: string, code: number): never {
  // The lock's file stays: removing it would let two pagers lock two files of one name.
  if (locked) rmSync(pagerSocket(runtimeDir), { force: true });
  process.exit(code);
}

process.on('SIGHUP', () => {}); // outlives whoever started it
process.title = 'agentzip-pager';
const options = JSON.parse(process.argv[2]) as PagerOptions;
main(options).catch((error) => {
  log(explain(error));
  finish(options.runtimeDir, 1);
});
