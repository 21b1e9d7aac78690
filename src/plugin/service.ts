import { AgentZipError, explain } from '../errors.js';
import { createAgentZip, type AgentZip } from './agentzip.js';
import type { AgentZipOptions } from './lifecycle.js';
import { ServiceManager } from './service-manager.js';

/** Where the service talks to its operator. */
export interface Console {
  print(text: string): void;
  warn(text: string): void;
  printError(error: unknown): void;
}

/** What of an AgentZip is needed to run it as a service. */
export type Served = Pick<AgentZip, 'policy' | 'socketPath' | 'started' | 'dashboard' | 'ended' | 'stop'>;

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Runs AgentZip until it is drained: by SIGTERM, SIGINT or SIGHUP, or by a host. A drain that is refused for lack of
 * memory is reported and the service goes on, for its pager holds pages of living sandboxes. Throws what
 * {@link createAgentZip} throws, and AZ_PAGER_LOST.
 */
export async function runService(
  options: AgentZipOptions,
  console: Console,
  start: (options: AgentZipOptions) => Promise<Served> = createAgentZip,
): Promise<void> {
  let service: Served | undefined;
  let asked = false;
  const manager = new ServiceManager(console.warn);
  const drain = (): void => {
    asked = true;
    service?.stop().catch((error: unknown) => {
      report(error, console);
      manager.status(`not drained: ${explain(error)}`);
    });
  };
  // From the start: a signal that comes while the pager starts must not leave its device behind.
  for (const signal of SIGNALS) process.on(signal, drain);
  try {
    service = await start({ ...options, onError: console.printError });
    greet(service, console);
    manager.ready(service.started.pager.device);
    if (asked) drain();
    await service.ended;
  } finally {
    for (const signal of SIGNALS) process.off(signal, drain);
  }
}

function greet({ started, socketPath, policy, dashboard }: Served, console: Console): void {
  if (policy.log.level !== 'error') {
    const { probes, memory, hosts } = started;
    const found = hosts.flatMap(({ warnings }) => warnings);
    for (const warning of [...probes.warnings, ...memory.warnings, ...found])
      console.warn(`warning: ${warning}`);
    if (policy.mode === 'observe' || policy.mode === 'off')
      console.warn(`warning: mode is ${policy.mode}: nothing is compressed`);
  }
  console.print(`agentzip: ready\nagentzip: socket ${socketPath}\n`);
  if (dashboard !== null)
    console.print(`agentzip: dashboard ${dashboard.address}, with its key in ${dashboard.file}\n`);
}

function report(error: unknown, console: Console): void {
  console.printError(error);
  if (error instanceof AgentZipError && error.code === 'AZ_PAGER_LOST') return;
  console.warn('not drained; the service keeps running');
}
