import { execFile } from 'node:child_process';
import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { packageRoot } from '../../src/paths.js';
import { ContainerDaemon, makeBusyboxRoot } from './container-daemon.js';

const run = promisify(execFile);

/** A Docker Engine of its own, without network, below a folder of its own. Its containers see the host's /usr. `stop` it in `afterEach`. */
export class Docker extends ContainerDaemon {
  private constructor() {
    super('docker', ['/run/docker', '/run/containerd']);
  }

  static async start(): Promise<Docker> {
    const docker = new Docker();
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

  /** Over the same containers; what ran in them ended with the daemon. */
  async boot(): Promise<void> {
    const { folder } = this;
    await this.serve('dockerd', [
      ...['--data-root', `${folder}/data`, '--exec-root', `${folder}/exec`, '--pidfile', `${folder}/pid`],
      ...['-H', `unix://${this.socket}`, '--storage-driver', 'vfs', '--cgroup-parent', `/${this.parent}`],
      ...['--iptables=false', '--ip6tables=false', '--bridge=none', '--live-restore=false'],
    ]);
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
    const applets = ['sh', 'sleep', 'cat', 'true', 'kill', 'rm', 'test'];
    makeBusyboxRoot(root, ['usr', 'fixtures', 'tmp', 'dev', 'proc'], applets);
    for (const folder of ['lib', 'lib64']) symlinkSync(`usr/${folder}`, `${root}/${folder}`);
    writeFileSync(`${root}/mark`, mark);
    await run('tar', ['-C', root, '-cf', `${root}.tar`, '.']);
    return this.ask('import', `${root}.tar`, name);
  }

  protected async clear(): Promise<void> {
    const all = (await this.ask('ps', '-aq')).split('\n').filter(Boolean);
    if (all.length > 0) await this.ask('rm', '-f', ...all);
  }

  protected async answers(): Promise<boolean> {
    return this.ask('version').then(
      () => true,
      () => false,
    );
  }
}
