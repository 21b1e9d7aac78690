import type { HostAdapter } from '../../hosts/adapter.js';
import { BubblewrapAdapter } from '../../hosts/bubblewrap.js';
import { CgroupAdapter } from '../../hosts/cgroup.js';
import { ContainerdAdapter } from '../../hosts/containerd.js';
import { DockerAdapter } from '../../hosts/docker.js';
import { E2bAdapter } from '../../hosts/e2b.js';
import { FirecrackerAdapter } from '../../hosts/firecracker.js';
import { RunscAdapter } from '../../hosts/runsc.js';
import type { Policy } from '../../policy/policy.js';

type Section = Exclude<keyof Policy['hosts'], 'intervalMs' | 'capture'>;

/** How each adapter is made of its section of the policy. What two of them find is the first one's. */
const ADAPTERS: { [Name in Section]: (policy: Policy['hosts'][Name]) => HostAdapter } = {
  bubblewrap: (policy) => new BubblewrapAdapter(policy),
  e2b: (policy) => new E2bAdapter(policy),
  firecracker: (policy) => new FirecrackerAdapter(policy),
  runsc: (policy) => new RunscAdapter(policy),
  docker: (policy) => new DockerAdapter(policy),
  containerd: (policy) => new ContainerdAdapter(policy),
  cgroup: (policy) => new CgroupAdapter(policy),
};

/** Names of the adapters, as `agentzip run --hosts` and the policy have them. */
export const ADAPTER_NAMES = Object.keys(ADAPTERS) as readonly Section[];

const made = <Name extends Section>(name: Name, policy: Policy['hosts']): HostAdapter =>
  ADAPTERS[name](policy[name]);

/** Those that the policy enables. */
export const adaptersOf = (policy: Policy['hosts']): HostAdapter[] =>
  ADAPTER_NAMES.filter((name) => policy[name].enabled).map((name) => made(name, policy));
