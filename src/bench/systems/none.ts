import { NO_CPU, NO_POOLS, type Pools, type System, type SystemCpu } from '../system.js';

/** No memory system: what the sandboxes take and how fast they are by themselves. */
export class NoSystem implements System {
  readonly name = 'none';

  async start(): Promise<void> {}
  async addTemplate(): Promise<void> {}
  async addSandbox(): Promise<void> {}
  async event(): Promise<void> {}
  async removeSandbox(): Promise<void> {}
  async stop(): Promise<void> {}

  async account(): Promise<null> {
    return null;
  }

  async pools(): Promise<Pools> {
    return NO_POOLS;
  }

  async cpu(): Promise<SystemCpu> {
    return NO_CPU;
  }
}
