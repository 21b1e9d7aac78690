import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { cgroupMounts } from '../../src/memory/cgroup.js';

const START_MS = 30_000;
const POLL_MS = 100;

/** A daemon that runs containers, below a folder of its own, which goes with it. */
export abstract class ContainerDaemon {
  private daemon: ChildProcess | undefined;
  private output = '';
  readonly folder: string;
  /** Above the cgroups of its containers, so that `stop` leaves none. */
  readonly parent: string;
  private readonly strays: string[];

  /** `strays`: what it makes outside its folder, and leaves behind. */
  protected constructor(name: string, strays: readonly string[]) {
    this.folder = mkdtempSync(`${tmpdir()}/agentzip-${name}-`);
    this.parent = `agentzip-test-${name}-${process.pid}`;
    this.strays = strays.filter((path) => !existsSync(path));
  }

  /** Starts it (again). */
  abstract boot(): Promise<void>;

  /** Ends what runs in its containers, and them; the daemon answers. */
  protected abstract clear(): Promise<void>;

  protected abstract answers(): Promise<boolean>;

  /** Runs the daemon, and waits until it answers. */
  protected async serve(program: string, words: readonly string[]): Promise<void> {
    const daemon = (this.daemon = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] }));
    for (const stream of [daemon.stdout!, daemon.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    const failed = once(daemon, 'error').then(([error]) => Promise.reject(error as Error));
    failed.catch(() => {});
    for (const until = Date.now() + START_MS; ; await Promise.race([sleep(POLL_MS), failed])) {
      if (await this.answers()) return;
      if (Date.now() > until || daemon.exitCode !== null) throw new Error(`${program}: ${this.output}`);
    }
  }

  /** Ends the daemon alone. */
  async halt(): Promise<void> {
    if (this.daemon?.pid === undefined || this.daemon.exitCode !== null) return;
    const exited = once(this.daemon, 'exit');
    this.daemon.kill('SIGTERM');
    await exited;
  }

  async stop(): Promise<void> {
    if (await this.answers()) await this.clear();
    await this.halt();
    for (const { path } of cgroupMounts()) {
      if (existsSync(`${path}/${this.parent}`)) rmdirSync(`${path}/${this.parent}`);
    }
    for (const path of [this.folder, ...this.strays]) rmSync(path, { recursive: true, force: true });
  }
}

/** A root file system of busybox at `root`, with these folders besides `bin`. */
export function makeBusyboxRoot(root: string, folders: readonly string[], applets: readonly string[]): void {
  for (const folder of ['bin', ...folders]) mkdirSync(`${root}/${folder}`, { recursive: true });
  cpSync('/bin/busybox', `${root}/bin/busybox`, { dereference: true });
  for (const applet of applets) symlinkSync('busybox', `${root}/bin/${applet}`);
}
