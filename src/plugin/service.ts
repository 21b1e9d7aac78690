import { AgentZipError, explain } from '../errors.js';
import { createAgentZip, type AgentZip } from './agentzip.js';
import type { AgentZipOptions } from './lifecycle.js';
import { ServiceManager } from './service-manager.js';
import { mib } from './watch/format.js';

/** Where the service talks to its operator. */
export interface Console {
  print(text: string): void;
  warn(text: string): void;
  printError(error: unknown): void;
}

/** What of an AgentZip is needed to run it as a service. */
export type Served = Pick<
  AgentZip,
  'policy' | 'socketPath' | 'started' | 'dashboard' | 'ended' | 'stop' | 'reload' | 'on'
>;

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Runs AgentZip until it is drained: by SIGTERM or SIGINT, or by a host. SIGHUP reads the policy anew. A drain that is refused for lack of
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
  const reload = (): void => service?.reload();
  process.on('SIGHUP', reload);
  try {
    service = await start({ ...options, onError: console.printError });
    greet(service, console);
    follow(service, console);
    followObserved(service, console);
    manager.ready(service.started.pager.device);
    if (asked) drain();
    await service.ended;
  } finally {
    for (const signal of SIGNALS) process.off(signal, drain);
    process.off('SIGHUP', reload);
  }
}

function greet({ started, socketPath, policy, dashboard }: Served, console: Console): void {
  if (policy.log.level !== 'error') {
    const { probes, memory, hosts } = started;
    const found = hosts.flatMap(({ warnings }) => warnings);
    for (const warning of [...probes.warnings, ...memory.warnings, ...found])
      console.warn(`warning: ${warning}`);
    if (started.dryRun) console.warn('dry run: nothing is compressed, and no swap device is made');
    else if (policy.mode === 'observe' || policy.mode === 'off')
      console.warn(`warning: mode is ${policy.mode}: nothing is compressed`);
  }
  console.print(`agentzip: ready\nagentzip: socket ${socketPath}\n`);
  if (dashboard !== null)
    console.print(`agentzip: dashboard ${dashboard.address}, with its key in ${dashboard.file}\n`);
}

/** Tells the operator what happens, as much as the policy asks for. */
function follow(service: Served, console: Console): void {
  service.on('policyRefused', ({ error }) => {
    console.printError(error);
    console.warn('the policy from before holds');
  });
  service.on('policyChanged', ({ changed, kept }) => {
    const level = service.policy.log.level;
    if (changed.length > 0 && level !== 'error' && level !== 'warn')
      console.warn(`policy: ${changed.join(', ')} changed`);
    if (kept.length > 0 && level !== 'error')
      console.warn(`warning: ${explain(new AgentZipError('AZ_POLICY_KEPT', { keys: kept.join(', ') }))}`);
  });
}

const seconds = (ms: number | null): string => (ms === null ? 'not known' : `${(ms / 1000).toFixed(1)} s`);

/** The same of waits in which nothing is done. */
function followObserved(service: Served, console: Console): void {
  const told = (): boolean => ['info', 'debug'].includes(service.policy.log.level);
  service.on('windowObserved', ({ sandbox, bytes, expectedMs, predictedMs }) => {
    const wait = expectedMs === null ? 'predicted' : 'expected';
    const length = seconds(expectedMs ?? predictedMs);
    if (told())
      console.warn(`would page out ${mib(bytes)} MiB of sandbox ${sandbox}; ${wait} wait: ${length}`);
  });
  service.on('windowSkipped', ({ sandbox, reason }) => {
    const { dryRun } = service.started;
    const observes = dryRun || service.policy.mode === 'observe';
    if (told() && observes) console.warn(`would skip a wait of sandbox ${sandbox} because ${reason}`);
  });
}

function report(error: unknown, console: Console): void {
  console.printError(error);
  if (error instanceof AgentZipError && error.code === 'AZ_PAGER_LOST') return;
  console.warn('not drained; the service keeps running');
}
