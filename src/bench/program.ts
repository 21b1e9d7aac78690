import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { Lines, within } from './lines.js';
import { ended } from './processes.js';
import type { TemplatePlan } from './workload.js';

const START_TIMEOUT_MS = 180_000;
const ORDER_TIMEOUT_MS = 30_000;
const END_TIMEOUT_MS = 5000;

/** A sandbox's identity, as the program is told it. */
export interface Order {
  socket: string;
  procs: string;
  folder: string;
}

interface Answer {
  memoryFile?: string;
  missing?: string;
  reason?: string;
  package?: string;
}

/**
 * A running program of a workload. It is started as `command… PID`, with the pid of the bench, dies with the bench
 * (PR_SET_PDEATHSIG), and speaks JSON, one object a line, over its standard input and output:
 *
 * - warmed up, it prints `{"ready": PID}`, with `"memoryFile": PATH` when its sandboxes are machines whose memory is a private
 *   mapping of that file, or `{"missing": LIBRARY, "reason": TEXT, "package": NAME}`;
 * - launch fork: `{"fork": ID, "socket", "procs", "folder"}` makes it fork, and print `{"forked": ID, "pid": PID}`; the
 *   child becomes sandbox ID. Launch fresh: `{"become": ID, …}` makes it become sandbox ID itself;
 * - to become a sandbox: setsid (in a forked child), write "0" to the file `procs` before there are children, chdir to
 *   `folder` (private and empty; the bench removes it), connect to the Unix socket `socket`, send
 *   `{"hello": ID, "pid": PID}`, then answer `{"tool": NAME, "args": {…}}` with `{"result": any}` or `{"error": TEXT}`;
 * - end of input ends a template; hang-up of the socket ends a sandbox with all its children.
 *
 * Results are compared byte for byte between systems: no times, pids, absolute paths or addresses in them.
 */
export class Program {
  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: Lines,
  ) {}

  /** Memory file of its machines, once it is warm. */
  memoryFile: string | undefined;

  /**
   * Starts a program and waits until it is warm. `home` becomes its folder, HOME and TMPDIR. With `procs` it moves into
   * that cgroup first, so that all its memory is charged there; `launcher` is put before its command.
   * AZ_LIBRARY_MISSING when it, or a library it needs, is not installed.
   */
  static async start(
    { id, command, env }: TemplatePlan,
    home: string,
    { launcher = [], procs }: { launcher?: readonly string[]; procs?: string } = {},
  ): Promise<Program> {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    const mover = procs === undefined ? [] : ['/bin/sh', '-c', 'echo 0 > "$0" && exec "$@"', procs];
    const [path, ...args] = [...mover, ...launcher, ...command, String(process.pid)];
    const child = spawn(path, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true, // Ctrl-C at the terminal is for the bench, which ends the rest in order
      cwd: home,
      env: { PATH: '/usr/bin:/bin', HOME: home, TMPDIR: home, ...env },
    });
    child.stdin.on('error', () => undefined); // its end shows on stdout
    const program = new Program(child, new Lines(child.stdout, id));
    try {
      await once(child, 'spawn').catch((error: Error) => {
        throw missing(command[0], error.message);
      });
      const line = await within(program.lines.next(), START_TIMEOUT_MS, `the start of ${id}`);
      const answer = JSON.parse(line) as Answer;
      if (answer.missing !== undefined) throw missing(answer.missing, answer.reason, answer.package);
      program.memoryFile = answer.memoryFile;
      return program;
    } catch (error) {
      await program.end();
      throw error;
    }
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Makes it fork a sandbox; returns once it has. */
  async fork(id: string, order: Order): Promise<void> {
    this.send({ fork: id, ...order });
    await within(this.lines.next(), ORDER_TIMEOUT_MS, `the fork of ${id}`);
  }

  /** Makes it a sandbox itself. */
  become(id: string, order: Order): void {
    this.send({ become: id, ...order });
  }

  /** Ends its input, and so the program; kills it when it does not end within 5 s. */
  async end(): Promise<void> {
    this.child.stdin?.end();
    if (this.child.pid !== undefined && !(await ended(this.child.pid, END_TIMEOUT_MS)))
      this.child.kill('SIGKILL');
  }

  private send(order: object): void {
    this.child.stdin?.write(`${JSON.stringify(order)}\n`);
  }
}

const missing = (library: string, reason = '', name = library): AgentZipError =>
  new AgentZipError('AZ_LIBRARY_MISSING', { library, reason, package: name.replace(/^.*\//, '') });
