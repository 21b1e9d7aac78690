import type { Status, SandboxSpec, TemplateSpec, TemplateStatus } from '../controller/api.js';
import type { ControllerEvents } from '../controller/events.js';
import type { Policy } from '../policy/policy.js';
import { startRunning, type AgentZipOptions, type Running } from './lifecycle.js';
import { checkedId, sandboxSpec, templateSpec } from './requests.js';
import { SandboxHandle } from './sandbox-handle.js';

/**
 * AgentZip in the process of a Node host: device, controller and control socket, as `agentzip run` has them. What the
 * host gives is checked as requests on the socket are.
 */
export class AgentZip {
  /** Only {@link createAgentZip} makes one. */
  constructor(private readonly running: Running) {}

  /** The policy that holds now, with its defaults filled in. */
  get policy(): Readonly<Policy> {
    return this.running.policy;
  }

  /** Reads the policy's file anew at once; it is watched anyway. `policyChanged` and `policyRefused` tell what came of it. */
  reload(): void {
    this.running.reload();
  }

  /** Other hosts and `agentzip status` may use it meanwhile. */
  get socketPath(): string {
    return this.running.socketPath;
  }

  /** Address of the page for browsers, and the file that opens it; null when the policy asks for none. */
  get dashboard(): Running['dashboard'] {
    return this.running.dashboard;
  }

  /** Status when it had started. */
  get started(): Status {
    return this.running.started;
  }

  /**
   * Resolves when AgentZip has ended because it was drained, by {@link stop} or over the socket. Rejects with AZ_PAGER_LOST when
   * its pager went away.
   */
  get ended(): Promise<void> {
    return this.running.ended;
  }

  /** Registers the memory that the sandboxes of one origin have in common. Errors: as `PUT /v1/templates/{id}`. */
  async template(id: string, spec: TemplateSpec): Promise<TemplateStatus> {
    return this.running.api.putTemplate(checkedId(id), templateSpec(spec));
  }

  /** Registers a sandbox. Errors: as `PUT /v1/sandboxes/{id}`. */
  async sandbox(id: string, spec: SandboxSpec): Promise<SandboxHandle> {
    await this.running.api.putSandbox(checkedId(id), sandboxSpec(spec));
    return new SandboxHandle(this.running.api, id);
  }

  /** Those registered now, whoever registered them. */
  async sandboxes(): Promise<SandboxHandle[]> {
    const { sandboxes } = await this.status();
    return sandboxes.map(({ id }) => new SandboxHandle(this.running.api, id));
  }

  status(): Promise<Status> {
    return this.running.api.status();
  }

  /** Stops compressing until it is started anew. What is out stays readable. */
  disable(): void {
    this.running.api.disable();
  }

  /** A listener that throws harms nobody: `onError` is told. Returns what ends the listening. */
  on<Name extends keyof ControllerEvents>(
    name: Name,
    listener: (event: ControllerEvents[Name]) => unknown,
  ): () => void {
    return this.running.events.on(name, listener);
  }

  /** Pages everything in and ends. Rejects with AZ_DRAIN_MEMORY, and keeps running, when the memory does not suffice. */
  stop(): Promise<void> {
    return this.running.stop();
  }
}

/**
 * Checks the host, starts AgentZip in this process (its pager is a process of its own) and serves the control socket.
 * Errors: AZ_POLICY_*, those of the host's requirements, AZ_ALREADY_RUNNING, AZ_PAGER_START and others of the table;
 * then nothing is left behind.
 */
export async function createAgentZip(options: AgentZipOptions = {}): Promise<AgentZip> {
  return new AgentZip(await startRunning(options));
}
