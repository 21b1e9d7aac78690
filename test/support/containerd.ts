import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { Grpc } from '../../src/hosts/grpc.js';
import { encode, Message, type Value } from '../../src/hosts/protobuf.js';
import { ContainerDaemon, makeBusyboxRoot } from './container-daemon.js';

const run = promisify(execFile);
/** Kubernetes' network of the host: a pod that needs no network plugin. */
const NODE_NETWORK = 2;
const IMAGE = 'docker.io/test/box:1';

const textMap = (field: number, entries: Record<string, string>): [number, Value][] =>
  Object.entries(entries).map(([key, value]) => [field, encode([1, key], [2, value])]);

/** A containerd of its own, with the CRI of Kubernetes, below a folder of its own. `stop` it in `afterEach`. */
export class Containerd extends ContainerDaemon {
  private readonly pods: string[] = [];
  image = IMAGE;

  private constructor() {
    super('containerd', ['/run/containerd']);
  }

  static async start(): Promise<Containerd> {
    const containerd = new Containerd();
    try {
      await containerd.boot();
      for (const namespace of ['default', 'k8s.io']) await containerd.importImage(namespace);
      return containerd;
    } catch (error) {
      await containerd.stop();
      throw error;
    }
  }

  get address(): string {
    return `${this.folder}/containerd.sock`;
  }

  /** What runs in containers has gone on. */
  async boot(): Promise<void> {
    const { folder } = this;
    writeFileSync(
      `${folder}/config.toml`,
      `version = 2
root = "${folder}/root"
state = "${folder}/state"
[grpc]
  address = "${this.address}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${IMAGE}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${folder}/none"
    conf_dir = "${folder}/none"
`,
    );
    await this.serve('containerd', ['-c', `${folder}/config.toml`]);
  }

  /** Output of a command of `ctr` in a namespace, trimmed. */
  async ask(namespace: string, ...words: string[]): Promise<string> {
    const { stdout } = await run('ctr', ['-a', this.address, '-n', namespace, ...words]);
    return stdout.trim();
  }

  /** Runs a container without Kubernetes. */
  run(id: string, labels: Record<string, string>, command: readonly string[]): Promise<string> {
    const own = ['run', '-d', '--snapshotter', 'native', '--cgroup', `/${this.parent}/${id}`];
    const given = Object.entries(labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]);
    return this.ask('default', ...own, ...given, IMAGE, id, ...command);
  }

  /** Runs a pod of one container, as a kubelet does. Returns the id of the container. */
  async pod(
    name: string,
    namespace: string,
    labels: Record<string, string>,
    command: readonly string[],
  ): Promise<string> {
    const uid = `uid-${name}`;
    const kubernetes = {
      ...{ 'io.kubernetes.pod.name': name, 'io.kubernetes.pod.namespace': namespace },
      'io.kubernetes.pod.uid': uid,
    };
    const linux = encode([1, `/${this.parent}`], [2, encode([1, encode([1, NODE_NETWORK])])]);
    const config = encode(
      [1, encode([1, name], [2, uid], [3, namespace])],
      ...textMap(6, { ...kubernetes, ...labels }),
      [8, linux],
    );
    const pod = (await this.cri('RunPodSandbox', encode([1, config]))).text(1);
    this.pods.push(pod);
    const container = encode(
      ...([
        [1, encode([1, 'agent'])],
        [2, encode([1, IMAGE])],
        ...command.map((word) => [3, word]),
        ...textMap(9, { ...kubernetes, 'io.kubernetes.container.name': 'agent' }),
      ] as [number, Value][]),
    );
    const created = await this.cri('CreateContainer', encode([1, pod], [2, container], [3, config]));
    await this.cri('StartContainer', encode([1, created.text(1)]));
    return created.text(1);
  }

  /** `kubectl exec`: returns once it has ended. */
  async exec(container: string, command: readonly string[]): Promise<void> {
    await this.cri('ExecSync', encode([1, container], ...command.map((word): [number, Value] => [2, word])));
  }

  async removePod(pod = this.pods.pop()!): Promise<void> {
    await this.cri('StopPodSandbox', encode([1, pod]));
    await this.cri('RemovePodSandbox', encode([1, pod]));
  }

  /** Ends all containers of `ctr`, and pods. */
  async clear(): Promise<void> {
    while (this.pods.length > 0) await this.removePod();
    for (const id of (await this.ask('default', 'containers', 'ls', '-q')).split('\n').filter(Boolean)) {
      await this.ask('default', 'tasks', 'kill', '-a', '-s', 'SIGKILL', id).catch(() => {});
      await this.ask('default', 'tasks', 'rm', '-f', id).catch(() => {});
      await this.ask('default', 'containers', 'rm', id);
    }
  }

  private async cri(method: string, request: Uint8Array): Promise<Message> {
    const grpc = new Grpc(this.address);
    return new Message(await grpc.ask({ path: `/runtime.v1.RuntimeService/${method}`, request }));
  }

  protected async answers(): Promise<boolean> {
    return this.cri('Version', encode([1, 'v1'])).then(
      () => true,
      () => false,
    );
  }

  /** An image of busybox, as `docker save` writes one. Its command is what a pod's sandbox runs. */
  private async importImage(namespace: string): Promise<void> {
    const work = mkdtempSync(`${this.folder}/image-`);
    const root = `${work}/root`;
    makeBusyboxRoot(root, ['usr', 'tmp', 'dev', 'proc', 'etc'], ['sh', 'sleep', 'cat', 'true']);
    await run('tar', ['-C', root, '-cf', `${work}/layer.tar`, '.']);
    const digest = createHash('sha256')
      .update(readFileSync(`${work}/layer.tar`))
      .digest('hex');
    const config = {
      ...{
        architecture: 'amd64',
        os: 'linux',
        config: { Cmd: ['/bin/sleep', '100000'], Env: ['PATH=/bin'] },
      },
      rootfs: { type: 'layers', diff_ids: [`sha256:${digest}`] },
    };
    writeFileSync(`${work}/config.json`, JSON.stringify(config));
    writeFileSync(
      `${work}/manifest.json`,
      JSON.stringify([{ Config: 'config.json', RepoTags: [IMAGE], Layers: ['layer.tar'] }]),
    );
    await run('tar', ['-C', work, '-cf', `${work}/image.tar`, 'manifest.json', 'config.json', 'layer.tar']);
    await this.ask(namespace, 'images', 'import', '--snapshotter', 'native', `${work}/image.tar`);
  }
}
