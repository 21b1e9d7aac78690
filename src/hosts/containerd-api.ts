import { AgentZipError } from '../errors.js';
import { Grpc } from './grpc.js';
import { encode, Message } from './protobuf.js';

/** A container, whether it runs or not. */
export interface Container {
  id: string;
  labels: Record<string, string>;
  /** What it was started from, as it was named then. */
  image: string;
  /** Such as `io.containerd.runc.v2`. */
  runtime: string;
}

/** What runs in a container. */
export interface Task {
  id: string;
  pid: number;
  paused: boolean;
}

export interface TaskEvent {
  namespace: string;
  /** Such as `/tasks/start`. */
  topic: string;
  container: string;
  /** Of a process that was brought in, or has ended; empty: the container's first. */
  exec: string;
  pid: number;
}

/** Of `containerd.v1.types.Status`: those of tasks that are there. */
const RUNNING = 2;
const PAUSED = 4;
const PAUSING = 5;

const NONE = new Uint8Array();

/**
 * The API of containerd (gRPC on its socket), as far as it is needed: only what reads. Field numbers are those of api/services
 * and api/events of containerd 1.x and 2.x. AZ_HOST_UNREACHABLE for all that goes wrong.
 */
export class ContainerdApi {
  private readonly grpc: Grpc;

  constructor(private readonly address: string) {
    this.grpc = new Grpc(address);
  }

  async containers(namespace: string): Promise<Container[]> {
    const answer = await this.list('containers.v1.Containers', namespace);
    return answer.messages(1).map((container) => ({
      ...{ id: container.text(1), labels: container.texts(2), image: container.text(3) },
      runtime: container.message(4).text(1),
    }));
  }

  async tasks(namespace: string): Promise<Task[]> {
    const answer = await this.list('tasks.v1.Tasks', namespace);
    return answer
      .messages(1)
      .filter((task) => [RUNNING, PAUSED, PAUSING].includes(task.number(4)))
      .map((task) => ({ id: task.text(2), pid: task.number(3), paused: task.number(4) !== RUNNING }));
  }

  /** Digest of each image by its name. */
  async digests(namespace: string): Promise<Map<string, string>> {
    const answer = await this.list('images.v1.Images', namespace);
    return new Map(answer.messages(1).map((image) => [image.text(1), image.message(3).text(2)]));
  }

  /** What happens to tasks of all namespaces from now on, until the returned function is called. */
  follow(on: {
    begun: () => void;
    event: (event: TaskEvent) => void;
    failed: (error: AgentZipError) => void;
  }): () => void {
    const call = {
      path: '/containerd.services.events.v1.Events/Subscribe',
      request: encode([1, 'topic~="^/tasks/"']),
    };
    return this.grpc.follow(call, {
      begun: on.begun,
      message: (bytes) => {
        const event = eventOf(new Message(bytes));
        if (event !== null) on.event(event);
      },
      ended: (error) => on.failed(this.unreachable(error)),
    });
  }

  private async list(service: string, namespace: string): Promise<Message> {
    try {
      const path = `/containerd.services.${service}/List`;
      const metadata = { 'containerd-namespace': namespace };
      return new Message(await this.grpc.ask({ path, request: NONE, metadata }));
    } catch (error) {
      throw this.unreachable(error);
    }
  }

  private unreachable(error: unknown): AgentZipError {
    // A stream that ends because its connection did names that as the cause.
    const { cause = error } = error as Error;
    const { syscall, code, message } = cause as NodeJS.ErrnoException;
    const reason = syscall !== undefined && code !== undefined ? code : message;
    const details = { platform: 'containerd', address: this.address, section: 'containerd', reason };
    return new AgentZipError('AZ_HOST_UNREACHABLE', details, { cause: error });
  }
}

/** All events of tasks begin with the id of their container. */
function eventOf(envelope: Message): TaskEvent | null {
  const topic = envelope.text(3);
  const event = envelope.message(4).message(2);
  const container = event.text(1);
  if (container === '') return null;
  const base = { namespace: envelope.text(2), topic, container, exec: '', pid: 0 };
  if (topic !== '/tasks/exec-started' && topic !== '/tasks/exit') return base;
  const exec = event.text(2);
  return { ...base, exec: exec === container ? '' : exec, pid: event.number(3) };
}
