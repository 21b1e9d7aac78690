import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../errors.js';
import { PagerClient } from '../pager/client.js';
import { AgentZipClient } from './client.js';
import { followDrain } from './drain-progress.js';
import { InstanceLock } from './lock.js';
import type { Progress } from './progress.js';
import { checkedRuntimeDir, controlSocket, pagerSocket } from './runtime-files.js';

/** Time that a drained service takes at most to leave. */
const EXIT_TIMEOUT_MS = 15_000;
const POLL_MS = 50;

/** Who was drained. */
export type Drained = 'service' | 'pager';

/**
 * Pages everything in and ends AgentZip. When the service is dead (killed, crashed) and only its pager lives, the pager
 * is asked itself. `tell` hears how many bytes have come back.
 * Errors: AZ_NOT_RUNNING when neither answers, AZ_DRAIN_MEMORY, AZ_TIMEOUT.
 */
export async function drainAgentZip(
  directory: string,
  tell?: (progress: Progress) => void,
): Promise<Drained> {
  const runtimeDir = checkedRuntimeDir(directory);
  const client = new AgentZipClient(controlSocket(runtimeDir));
  try {
    const device = tell && (await client.status()).pager.device;
    await followed(() => client.drain(), device, tell);
  } catch (error) {
    if (!(error instanceof AgentZipError) || error.code !== 'AZ_NOT_RUNNING') throw error;
    await drainPager(runtimeDir, error, tell);
    return 'pager';
  } finally {
    client.close();
  }
  await gone(runtimeDir);
  return 'service';
}

/** Drains, and tells meanwhile how far it is. */
async function followed(
  drain: () => Promise<void>,
  device: string | undefined,
  tell: ((progress: Progress) => void) | undefined,
): Promise<void> {
  const end = new AbortController();
  const following =
    device !== undefined && tell !== undefined ? followDrain(device, tell, end.signal) : Promise.resolve();
  try {
    await drain();
  } finally {
    end.abort();
    await following;
  }
}

/** `notRunning` is what to say when there is no pager either. */
async function drainPager(
  runtimeDir: string,
  notRunning: AgentZipError,
  tell?: (progress: Progress) => void,
): Promise<void> {
  let pager: PagerClient;
  try {
    pager = await PagerClient.connect(pagerSocket(runtimeDir));
  } catch {
    throw notRunning;
  }
  try {
    const device = tell && (await pager.request('hello', {})).device;
    await followed(() => pager.drain(), device, tell);
  } finally {
    pager.close();
  }
}

/** The lock is the last thing a service lets go of: afterwards another may start. */
async function gone(runtimeDir: string): Promise<void> {
  const deadline = performance.now() + EXIT_TIMEOUT_MS;
  while (InstanceLock.isHeld(runtimeDir)) {
    if (performance.now() > deadline) {
      const details = { what: 'the exit of the drained service', seconds: EXIT_TIMEOUT_MS / 1000 };
      throw new AgentZipError('AZ_TIMEOUT', { ...details, remedy: 'see what agentzip run has logged' });
    }
    await sleep(POLL_MS);
  }
}
