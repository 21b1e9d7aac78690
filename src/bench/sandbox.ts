import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { failed, Lines, within } from './lines.js';
import { ended } from './processes.js';
import type { ToolCall } from './workload.js';

const ARRIVAL_TIMEOUT_MS = 30_000;
/** All sandboxes of a fan-out may run a compiler at once, on few cores, with their memory out. */
const TOOL_TIMEOUT_MS = 600_000;
const END_TIMEOUT_MS = 5000;

/** A sandbox: a process that answers tool calls, in a cgroup and a folder of its own. */
export class Sandbox {
  constructor(
    readonly id: string,
    readonly pid: number,
    readonly cgroup: string,
    private readonly folder: string,
    private readonly socket: Socket,
    private readonly lines: Lines,
  ) {}

  /** Runs a tool and returns the text of its result. AZ_WORKLOAD_FAILED when the tool raises or the sandbox ends. */
  async call(call: ToolCall): Promise<string> {
    this.socket.write(`${JSON.stringify(call)}\n`);
    const line = await within(this.lines.next(), TOOL_TIMEOUT_MS, `${call.tool} in ${this.id}`);
    const { result, error } = JSON.parse(line) as { result?: unknown; error?: string };
    if (error !== undefined) throw failed(`${call.tool} in ${this.id}: ${error.trim()}`);
    return JSON.stringify(result);
  }

  /** Hangs up; the process then ends. False when it did not within 5 s: its cgroup's removal ends it. */
  async end(): Promise<boolean> {
    this.socket.destroy();
    const gone = await ended(this.pid, END_TIMEOUT_MS);
    if (gone) rmSync(this.folder, { recursive: true, force: true });
    return gone;
  }
}

interface Guest {
  socket: Socket;
  lines: Lines;
  pid: number;
}

/** Where sandboxes report when they have started: a Unix socket of the run. */
export class Reception {
  private readonly expected = new Map<string, (guest: Guest) => void>();

  private constructor(
    private readonly server: Server,
    readonly path: string,
  ) {
    server.on('connection', (socket) => void this.welcome(socket));
  }

  /** `path` is a Unix socket's, 107 bytes at most. */
  static async listen(path: string): Promise<Reception> {
    const server = createServer().listen(path);
    await once(server, 'listening');
    return new Reception(server, path);
  }

  /** Call before the sandbox is told to start, and await after. AZ_WORKLOAD_FAILED when it does not come. */
  expect(id: string): Promise<Guest> {
    const arrival = new Promise<Guest>((resolve) => this.expected.set(id, resolve));
    const guest = within(arrival, ARRIVAL_TIMEOUT_MS, `the start of ${id}`);
    guest.catch(() => undefined); // also when the caller failed before it could wait
    return guest;
  }

  close(): void {
    this.server.close();
  }

  private async welcome(socket: Socket): Promise<void> {
    socket.on('error', () => undefined); // its end shows in its lines
    const lines = new Lines(socket, 'a sandbox');
    try {
      const { hello, pid } = JSON.parse(await lines.next()) as { hello: string; pid: number };
      this.expected.get(hello)?.({ socket, lines, pid });
      this.expected.delete(hello);
    } catch {
      socket.destroy();
    }
  }
}
