import { AgentZipError } from '../errors.js';
import { startAgentZip, type AgentZip, type StartOptions } from './lifecycle.js';

/** Where the service talks to its operator. */
export interface Console {
  print(text: string): void;
  warn(text: string): void;
  printError(error: unknown): void;
}

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Runs AgentZip until it is drained: by SIGTERM, SIGINT or SIGHUP, or by a host. A drain that is refused for lack of
 * memory is reported and the service goes on, for its pager holds pages of living sandboxes. Throws what
 * {@link startAgentZip} throws, and AZ_PAGER_LOST.
 */
export async function runService(
  options: StartOptions,
  console: Console,
  start: (options: StartOptions) => Promise<AgentZip> = startAgentZip,
): Promise<void> {
  let service: AgentZip | undefined;
  let asked = false;
  const drain = (): void => {
    asked = true;
    service?.stop().catch((error: unknown) => report(error, console));
  };
  // From the start: a signal that comes while the pager starts must not leave its device behind.
  for (const signal of SIGNALS) process.on(signal, drain);
  try {
    service = await start({ ...options, onError: console.printError });
    greet(service, console);
    if (asked) drain();
    await service.ended;
  } finally {
    for (const signal of SIGNALS) process.off(signal, drain);
  }
}

function greet({ started, socketPath, policy, dashboard }: AgentZip, console: Console): void {
  if (policy.log.level !== 'error') {
    const { probes, memory } = started;
    for (const warning of [...probes.warnings, ...memory.warnings]) console.warn(`warning: ${warning}`);
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
