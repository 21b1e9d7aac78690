import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { cgroupMounts } from '../../src/memory/cgroup.js';
import { packageRoot } from '../../src/paths.js';

const run = promisify(execFile);
const START_MS = 30_000;
const POLL_MS = 100;

/** A Docker Engine of its own, without network, below a folder of its own. Its containers see the host's /usr. `stop` it in `afterEach`. */
export class Docker {
  private daemon!: ChildProcess;
  private output = '';
  /** Above the cgroups of its containers, so that `stop` leaves none. */
  readonly parent = `agentzip-test-docker-${process.pid}`;

  /** What the daemon and its containerd make outside their folders, and leave behind. */
  private readonly strays = ['/run/docker', '/run/containerd'].filter((path) => !existsSync(path));

  private constructor(readonly folder: string) {}

  static async start(): Promise<Docker> {
    const docker = new Docker(mkdtempSync(`${tmpdir()}/agentzip-docker-`));
    try {
      await docker.boot();
      await docker.makeImage('box');
      return docker;
    } catch (error) {
      await docker.stop();
      throw error;
    }
  }

  get socket(): string {
    return `${this.folder}/docker.sock`;
  }

  /** Starts the daemon (again) over the same containers. */
  async boot(): Promise<void> {
    const { folder } = this;
    this.daemon = spawn(
      'dockerd',
      [
        ...['--data-root', `${folder}/data`, '--exec-root', `${folder}/exec`, '--pidfile', `${folder}/pid`],
        ...['-H', `unix://${this.socket}`, '--storage-driver', 'vfs', '--cgroup-parent', `/${this.parent}`],
        ...['--iptables=false', '--ip6tables=false', '--bridge=none', '--live-restore=false'],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    for (const stream of [this.daemon.stdout!, this.daemon.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    const failed = once(this.daemon, 'error').then(([error]) => Promise.reject(error as Error));
    failed.catch(() => {});
    for (const until = Date.now() + START_MS; ; await Promise.race([sleep(POLL_MS), failed])) {
      if (await this.answers()) return;
      if (Date.now() > until || this.daemon.exitCode !== null) throw new Error(`dockerd: ${this.output}`);
    }
  }

  /** Output of a command of the client, trimmed. */
  async ask(...words: string[]): Promise<string> {
    const { stdout } = await run('docker', ['-H', `unix://${this.socket}`, ...words], {
      env: { ...process.env, DOCKER_CONFIG: this.folder },
    });
    return stdout.trim();
  }

  /** Starts a container; `words` are options of `docker run`, then the command. Returns its id. */
  run(name: string, options: readonly string[], command: readonly string[]): Promise<string> {
    const mounts = ['-v', '/usr:/usr:ro', '-v', `${packageRoot}/test/fixtures:/fixtures:ro`];
    const own = ['-d', '--name', name, '--network', 'none', '--stop-timeout', '1', ...mounts];
    return this.ask('run', ...own, ...options, 'box', ...command);
  }

  /** An image of busybox, and of links into the host's /usr. Returns its digest. */
  async makeImage(name: string, mark = ''): Promise<string> {
    const root = mkdtempSync(`${this.folder}/root-`);
    for (const folder of ['bin', 'usr', 'fixtures', 'tmp', 'dev', 'proc']) mkdirSync(`${root}/${folder}`);
    cpSync('/bin/busybox', `${root}/bin/busybox`, { dereference: true });
    for (const applet of ['sh', 'sleep', 'cat', 'true', 'kill', 'rm', 'test'])
      symlinkSync('busybox', `${root}/bin/${applet}`);
    for (const folder of ['lib', 'lib64']) symlinkSync(`usr/${folder}`, `${root}/${folder}`);
    writeFileSync(`${root}/mark`, mark);
    await run('tar', ['-C', root, '-cf', `${root}.tar`, '.']);
    return this.ask('import', `${root}.tar`, name);
  }

  /** Ends the daemon alone; what runs in containers ends with it. */
  async halt(): Promise<void> {
    if (this.daemon?.pid === undefined || this.daemon.exitCode !== null) return;
    const exited = once(this.daemon, 'exit');
    this.daemon.kill('SIGTERM');
    await exited;
  }

  async stop(): Promise<void> {
    if (await this.answers()) {
      const all = (await this.ask('ps', '-aq')).split('\n').filter(Boolean);
      if (all.length > 0) await this.ask('rm', '-f', ...all);
    }
    await this.halt();
    for (const { path } of cgroupMounts()) {
      if (existsSync(`${path}/${this.parent}`)) rmdirSync(`${path}/${this.parent}`);
    }
    for (const path of [this.folder, ...this.strays]) rmSync(path, { recursive: true, force: true });
  }

  private async answers(): Promise<boolean> {
    return this.ask('version').then(
      () => true,
      () => false,
    );
  }
}
