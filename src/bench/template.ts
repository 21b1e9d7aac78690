import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createInterface, type Interface } from 'node:readline';
import { AgentZipError } from '../errors.js';
import { packageRoot } from '../paths.js';
import { ended } from './processes.js';
import type { ToolCall } from './trajectory.js';

const PROGRAM = `${packageRoot}/src/bench/programs/template.py`;
const PYTHON = '/usr/bin/python3';
const START_TIMEOUT_MS = 60_000;
const FORK_TIMEOUT_MS = 10_000;
const TOOL_TIMEOUT_MS = 60_000;
const END_TIMEOUT_MS = 5000;

const failed = (reason: string): AgentZipError =>
  new AgentZipError('AZ_WORKLOAD_FAILED', { reason, log: 'the lines above' });

/** `promise`, or an error once `timeoutMs` have passed. */
async function within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failed(`${what} took longer than ${timeoutMs / 1000} s`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lines of a stream, read one at a time; rejects when the other side is gone. */
class Lines {
  private readonly lines: string[] = [];
  private readonly waiting: { resolve: (line: string) => void; reject: (error: Error) => void }[] = [];
  private closed = false;
  private readonly reader: Interface;

  constructor(
    input: NodeJS.ReadableStream,
    private readonly name: string,
  ) {
    this.reader = createInterface({ input });
    this.reader.on('line', (line) => {
      const next = this.waiting.shift();
      if (next) next.resolve(line);
      else this.lines.push(line);
    });
    this.reader.on('close', () => {
      this.closed = true;
      for (const { reject } of this.waiting.splice(0)) reject(failed(`${this.name} ended`));
    });
  }

  next(): Promise<string> {
    const line = this.lines.shift();
    if (line !== undefined) return Promise.resolve(line);
    if (this.closed) return Promise.reject(failed(`${this.name} ended`));
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }
}

/** A sandbox: a process forked from the template that answers tool calls, in a cgroup of its own. */
export class Sandbox {
  constructor(
    readonly id: string,
    readonly pid: number,
    readonly cgroup: string,
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

  /** Hangs up; the process then ends. False when it did not within 5 s. */
  async end(): Promise<boolean> {
    this.socket.destroy();
    return ended(this.pid, END_TIMEOUT_MS);
  }
}

/** The running template of programs/template.py. */
export class Template {
  private readonly arrivals = new Map<string, (socket: Socket, lines: Lines) => void>();

  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: Lines,
    private readonly server: Server,
    private readonly socketPath: string,
  ) {
    server.on('connection', (socket) => void this.welcome(socket));
  }

  /**
   * Starts and warms the template. `folder` takes its socket and caches.
   * AZ_LIBRARY_MISSING when Python or one of its libraries is not installed.
   */
  static async start(folder: string): Promise<Template> {
    const socketPath = `${folder}/sandboxes.sock`;
    const server = createServer().listen(socketPath);
    await once(server, 'listening');
    // One thread for linear algebra: the cores belong to the sandboxes together, and results must not depend on them.
    const threads = { OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1', NUMEXPR_NUM_THREADS: '1' };
    const child = spawn(PYTHON, ['-B', '-s', PROGRAM, String(process.pid)], {
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true, // Ctrl-C at the terminal is for the bench, which ends the rest in order
      env: { ...threads, PATH: '/usr/bin:/bin', HOME: folder, MPLCONFIGDIR: folder },
    });
    const { stdin, stdout } = child;
    stdin.on('error', () => undefined); // its end shows on stdout
    const template = new Template(child, new Lines(stdout, 'the template'), server, socketPath);
    const missing = (library: string, reason: string): AgentZipError =>
      new AgentZipError('AZ_LIBRARY_MISSING', { library, reason, package: `python3-${library}` });
    try {
      const spawned = once(child, 'spawn').catch((error: Error) => {
        throw new AgentZipError('AZ_LIBRARY_MISSING', {
          library: PYTHON,
          reason: error.message,
          package: 'python3',
        });
      });
      await spawned;
      const line = await within(template.lines.next(), START_TIMEOUT_MS, 'the start of the template');
      const answer = JSON.parse(line) as { ready?: number; missing?: string; reason?: string };
      if (answer.missing !== undefined) throw missing(answer.missing, answer.reason ?? '');
      return template;
    } catch (error) {
      await template.end();
      throw error;
    }
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Forks a sandbox into the cgroup at `cgroup` (absolute path). */
  async fork(id: string, cgroup: string): Promise<Sandbox> {
    const arrival = new Promise<[Socket, Lines]>((resolve) => {
      this.arrivals.set(id, (socket, lines) => resolve([socket, lines]));
    });
    const order = { fork: id, socket: this.socketPath, procs: `${cgroup}/cgroup.procs` };
    this.child.stdin?.write(`${JSON.stringify(order)}\n`);
    const line = await within(this.lines.next(), FORK_TIMEOUT_MS, `the fork of ${id}`);
    const { pid } = JSON.parse(line) as { pid: number };
    const [socket, lines] = await within(arrival, FORK_TIMEOUT_MS, `the start of ${id}`);
    return new Sandbox(id, pid, cgroup, socket, lines);
  }

  async end(): Promise<void> {
    this.child.stdin?.end();
    if (this.child.pid !== undefined && !(await ended(this.child.pid, END_TIMEOUT_MS)))
      this.child.kill('SIGKILL');
    this.server.close();
  }

  private async welcome(socket: Socket): Promise<void> {
    socket.on('error', () => undefined); // its end shows in its lines
    const lines = new Lines(socket, 'a sandbox');
    try {
      const { hello } = JSON.parse(await lines.next()) as { hello: string };
      this.arrivals.get(hello)?.(socket, lines);
      this.arrivals.delete(hello);
    } catch {
      socket.destroy();
    }
  }
}
