import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../errors.js';
import { PagerClient } from '../pager/client.js';
import { AgentZipClient } from './client.js';
import { InstanceLock } from './lock.js';
import { checkedRuntimeDir, controlSocket, pagerSocket } from './runtime-files.js';

/** Time that a drained service takes at most to leave. */
const EXIT_TIMEOUT_MS = 15_000;
const POLL_MS = 50;

/** Who was drained. */
export type Drained = 'service' | 'pager';

/**
 * Pages everything in and ends AgentZip. When the service is dead (killed, crashed) and only its pager lives, the pager
 * is asked itself. Errors: AZ_NOT_RUNNING when neither answers, AZ_DRAIN_MEMORY, AZ_TIMEOUT.
 */
export async function drainAgentZip(directory: string): Promise<Drained> {
  const runtimeDir = checkedRuntimeDir(directory);
  const client = new AgentZipClient(controlSocket(runtimeDir));
  try {
    await client.drain();
  } catch (error) {
    if (!(error instanceof AgentZipError) || error.code !== 'AZ_NOT_RUNNING') throw error;
    await drainPager(runtimeDir, error);
    return 'pager';
  } finally {
    client.close();
  }
  await gone(runtimeDir);
  return 'service';
}

/** `notRunning` is what to say when there is no pager either. */
async function drainPager(runtimeDir: string, notRunning: AgentZipError): Promise<void> {
  let pager: PagerClient;
  try {
    pager = await PagerClient.connect(pagerSocket(runtimeDir));
  } catch {
    throw notRunning;
  }
  try {
    await pager.drain();
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
