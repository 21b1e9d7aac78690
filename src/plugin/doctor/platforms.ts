import { existsSync, readdirSync } from 'node:fs';
import { ADAPTER_NAMES } from '../../controller/sandboxes/adapters.js';
import { readText } from './requirement.js';

/** A platform that runs, or is installed, on this host. */
export interface Platform {
  name: string;
  /** What shows it: a file, or a process. */
  sign: string;
  /** Adapter that would find its sandboxes, see `agentzip run --hosts`; null: there is none. */
  adapter: string | null;
}

/** What can be seen of a host. */
export interface Signs {
  exists(path: string): boolean;
  /** Command names of all processes. */
  commands(): ReadonlySet<string>;
}

interface Known {
  name: string;
  paths: readonly string[];
  commands?: readonly string[];
  adapter: string;
}

/** Signs of each, see docs/hosts.md; the first that is there counts. */
const PLATFORMS: readonly Known[] = [
  { name: 'Docker', paths: ['/var/run/docker.sock', '/run/docker.sock'], adapter: 'docker' },
  { name: 'Podman', paths: ['/run/podman/podman.sock'], adapter: 'podman' },
  {
    ...{ name: 'Kubernetes', adapter: 'containerd', commands: ['kubelet'] },
    paths: ['/sys/fs/cgroup/kubepods.slice', '/sys/fs/cgroup/kubepods', '/sys/fs/cgroup/memory/kubepods'],
  },
  { name: 'containerd', paths: ['/run/containerd/containerd.sock'], adapter: 'containerd' },
  { name: 'CRI-O', paths: ['/run/crio/crio.sock'], adapter: 'crio' },
  { name: 'E2B', paths: ['/sys/fs/cgroup/e2b', '/fc-versions', '/orchestrator/sandbox'], adapter: 'e2b' },
  { name: 'Firecracker', paths: ['/srv/jailer'], commands: ['firecracker'], adapter: 'firecracker' },
  { name: 'gVisor', paths: [], commands: ['runsc-sandbox', 'runsc'], adapter: 'runsc' },
  { name: 'bubblewrap', paths: ['/usr/bin/bwrap'], commands: ['bwrap'], adapter: 'bubblewrap' },
  { name: 'Kata', paths: ['/run/vc'], adapter: 'kata' },
  { name: 'LXC', paths: ['/sys/fs/cgroup/lxc.monitor.slice', '/var/lib/lxc'], adapter: 'cgroup' },
  { name: 'systemd', paths: ['/run/systemd/system'], adapter: 'cgroup' },
];

export const hostSigns: Signs = {
  exists: existsSync,
  commands: () =>
    new Set(
      readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map((pid) => readText(`/proc/${pid}/comm`) ?? ''),
    ),
};

/** Which platforms there are, and who would serve them. */
export function platforms(
  { exists, commands }: Signs = hostSigns,
  adapters: readonly string[] = ADAPTER_NAMES,
): Platform[] {
  const running = commands();
  return PLATFORMS.flatMap(({ name, paths, commands: names = [], adapter }): Platform[] => {
    const path = paths.find(exists);
    const command = names.find((candidate) => running.has(candidate));
    const sign = path ?? (command === undefined ? null : `process ${command}`);
    if (sign === null) return [];
    return [{ name, sign, adapter: adapters.includes(adapter) ? adapter : null }];
  });
}
