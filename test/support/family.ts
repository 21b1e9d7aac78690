import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { packageRoot } from '../../src/paths.js';

const LIMIT_MS = 110_000;

/** A template process and its sandboxes (fixtures/family.py). All end with the test, whatever happens. */
export class Family {
  private readonly lines: AsyncIterableIterator<string>;
  private readonly timer: NodeJS.Timeout;
  /** One command at a time: the template passes them on. */
  private last: Promise<unknown> = Promise.resolve();

  private constructor(private readonly child: ChildProcessWithoutNullStreams) {
    this.lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  }

  static async start(): Promise<Family> {
    const family = new Family(spawn('/usr/bin/python3', [`${packageRoot}/test/fixtures/family.py`]));
    family.child.stderr.pipe(process.stderr);
    await family.lines.next();
    return family;
  }

  /** Pid of the template. */
  get pid(): number {
    return this.child.pid as number;
  }

  /** Forks a sandbox; returns its pid. */
  async fork(name: string): Promise<number> {
    return Number(await this.say(`fork ${name}`));
  }

  /** Has a sandbox carry out a command of fixtures/family.py; `ended` when it no longer lives. */
  ask(name: string, command: string): Promise<string> {
    return this.say(`${name} ${command}`);
  }

  async stop(): Promise<void> {
    clearTimeout(this.timer);
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }

  private say(line: string): Promise<string> {
    const answer = this.last.then(async () => {
      this.child.stdin.write(`${line}\n`);
      const { value, done } = await this.lines.next();
      if (done === true) throw new Error(`the template ended before it answered "${line}"`);
      return value;
    });
    this.last = answer.catch(() => {});
    return answer;
  }
}
