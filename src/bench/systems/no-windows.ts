import { AgentZipError } from '../../errors.js';
import type { HostEvent, Pools, SystemContext } from '../system.js';
import { AgentZipService, type ServiceOptions } from './agentzip.js';

const PERIOD_MS = 10_000;
const WINDOW_MS = 4000;

/**
 * AgentZip that hears nothing from the agents: a clock opens the window of each sandbox every 10 s for 4 s, whatever
 * the sandbox does then. Shows what knowing the waits is worth.
 */
export class ClockedService extends AgentZipService {
  private readonly timers = new Map<string, NodeJS.Timeout[]>();
  private failure: unknown;

  constructor(context: SystemContext, options: ServiceOptions) {
    super(context, options);
  }

  override async addSandbox(id: string, template: string, tenant: string, cgroup: string): Promise<void> {
    await super.addSandbox(id, template, tenant, cgroup);
    this.timers.set(id, [setInterval(() => this.open(id), PERIOD_MS)]);
    this.open(id);
  }

  override async event(): Promise<void> {}

  override pools(): Promise<Pools> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    return super.pools();
  }

  override async removeSandbox(id: string): Promise<void> {
    this.silence(id);
    await super.removeSandbox(id);
  }

  override async stop(): Promise<void> {
    for (const id of [...this.timers.keys()]) this.silence(id);
    await super.stop();
  }

  private open(id: string): void {
    const timers = this.timers.get(id);
    if (timers === undefined) return;
    this.tell(id, { type: 'llm_request_sent', at: Date.now(), expectedMs: WINDOW_MS });
    const close = setTimeout(() => this.tell(id, { type: 'llm_first_token', at: Date.now() }), WINDOW_MS);
    timers.splice(1, 1, close);
  }

  /** The sandbox may be gone by now; any other failure waits for the next look at the pools. */
  private tell(id: string, event: HostEvent): void {
    super.event(id, event).catch((error: unknown) => {
      if (!(error instanceof AgentZipError && error.code === 'AZ_UNKNOWN_SANDBOX') && this.timers.has(id))
        this.failure ??= error;
    });
  }

  private silence(id: string): void {
    for (const timer of this.timers.get(id) ?? []) clearInterval(timer);
    this.timers.delete(id);
  }
}
