import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { packageRoot } from '../../src/paths.js';

const CLI = join(packageRoot, 'node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js');
const LIMIT_MS = 120_000;

/** Answers each line of input with what it evaluates to; `fill` makes pages that are like, not the same as, each other. */
const PROGRAM = `
import hashlib, os, sys
memory = bytearray()
def fill(pages, seed):
    global memory
    words = [hashlib.sha256(f'{seed} {i % 61}'.encode()).digest() * 128 for i in range(61)]
    memory = bytearray().join(words[i % 61][:4000] + hashlib.sha256(f'{seed} {i}'.encode()).digest() * 3 for i in range(pages))
    return digest()
def digest(): return hashlib.sha256(memory).hexdigest()
def change(step):
    for at in range(0, len(memory), step): memory[at] ^= 0x5a
    return digest()
print('ready', flush=True)
for line in sys.stdin: print(eval(line), flush=True)
`;

/** A python3 in a sandbox of the npm package `@anthropic-ai/sandbox-runtime`, started by its own command. */
export class Srt {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'agentzip-srt-')));
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly lines: AsyncIterableIterator<string>;
  private readonly timer: NodeJS.Timeout;

  private constructor() {
    const settings = {
      network: { allowedDomains: [], deniedDomains: [] },
      filesystem: { denyRead: [], allowWrite: [this.folder], denyWrite: [] },
    };
    writeFileSync(join(this.folder, 'settings.json'), JSON.stringify(settings));
    writeFileSync(join(this.folder, 'program.py'), PROGRAM);
    const command = `/usr/bin/python3 ${this.folder}/program.py`;
    // A process group of its own: the command, its proxies and its bwrap end together.
    this.child = spawn(
      process.execPath,
      [CLI, '--settings', join(this.folder, 'settings.json'), '-c', command],
      // What it leaves in its temporary folder goes with ours.
      { cwd: this.folder, detached: true, env: { ...process.env, TMPDIR: this.folder } },
    );
    this.child.stderr.pipe(process.stderr);
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
    this.timer = setTimeout(() => this.child.kill('SIGKILL'), LIMIT_MS);
  }

  static async start(): Promise<Srt> {
    const srt = new Srt();
    try {
      if ((await srt.next()) !== 'ready') throw new Error('the sandbox does not start');
      return srt;
    } catch (error) {
      await srt.stop();
      throw error;
    }
  }

  /** The command of the host that has started the sandbox. */
  get pid(): number {
    return this.child.pid as number;
  }

  ask(expression: string): Promise<string> {
    this.child.stdin.write(`${expression}\n`);
    return this.next();
  }

  async stop(): Promise<void> {
    clearTimeout(this.timer);
    if (this.child.exitCode === null && this.child.signalCode === null) {
      // The end of its input ends the program, and so the sandbox.
      this.child.stdin.end();
      const hard = setTimeout(() => process.kill(-this.pid, 'SIGKILL'), 5000);
      await once(this.child, 'exit');
      clearTimeout(hard);
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async next(): Promise<string> {
    const { value, done } = await this.lines.next();
    if (done === true) throw new Error('the sandbox has ended');
    return value;
  }
}
