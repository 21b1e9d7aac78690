import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { packageRoot } from '../../src/paths.js';

const PROGRAM = join(packageRoot, 'test/fixtures/terminal.py');
/** Debian's, which has Debian's pyte. */
const PYTHON = '/usr/bin/python3';

export interface Picture {
  screen: string[];
  colors: string[];
  exit: number | null;
  /** Of the command. */
  pid: number;
  /** The command shows a screen of its own. */
  alternate: boolean;
}

/** A command in a terminal that exists in memory only. `stop` it in `afterEach`. */
export class Terminal {
  private readonly answers: AsyncIterator<string>;

  constructor(private readonly child: ChildProcessWithoutNullStreams) {
    this.answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  static start(
    words: readonly string[],
    [columns, rows]: [number, number],
    env: NodeJS.ProcessEnv = {},
  ): Terminal {
    const args = [PROGRAM, String(columns), String(rows), ...words];
    const kept = Object.entries(process.env).filter(
      ([name]) => !['CI', 'NO_COLOR', 'FORCE_COLOR'].includes(name),
    );
    return new Terminal(
      spawn(PYTHON, args, { env: { ...Object.fromEntries(kept), TERM: 'xterm-256color', ...env } }),
    );
  }

  press(keys: string): Promise<Picture> {
    return this.ask({ keys });
  }

  resize(columns: number, rows: number): Promise<Picture> {
    return this.ask({ resize: [columns, rows] });
  }

  look(): Promise<Picture> {
    return this.ask({ screen: true });
  }

  async text(): Promise<string> {
    return (await this.look()).screen.join('\n');
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const gone = once(this.child, 'exit');
    this.child.stdin.end();
    await gone;
  }

  private async ask(command: object): Promise<Picture> {
    this.child.stdin.write(`${JSON.stringify(command)}\n`);
    const { value, done } = await this.answers.next();
    if (done) throw new Error('the terminal has ended');
    return JSON.parse(value) as Picture;
  }
}
