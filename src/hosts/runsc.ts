import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { cgroupPids } from '../memory/cgroup.js';
import { hasReclaim } from '../memory/cgroup-reclaim.js';
import type { FoundSandbox, HostAdapter } from './adapter.js';
import { asDeclared, type Declared } from './declared.js';
import { guestMemory, judge, type Verdict } from './guest-memory.js';
import { foundId } from './names.js';
import { ProcFolder } from './proc-folder.js';
import { option } from './virtual-machines.js';

/** Annotations that say what a sandbox started from and whose it is, the surest first. */
const TEMPLATE_KEYS = [
  'agents.x-k8s.io/sandbox-template-ref-hash',
  'io.kubernetes.cri.image-name',
  'org.opencontainers.image.ref.name',
];
const TENANT_KEYS = ['io.kubernetes.cri.sandbox-namespace', 'io.kubernetes.pod.namespace'];

const SHARED = 'the memory of its programs is a memory file that the sentry and they map together';

type Annotations = Readonly<Record<string, unknown>>;
interface Process {
  pid: number;
  argv: string[];
}

/**
 * gVisor. A sandbox is a `runsc-sandbox`, the sentry, and its `runsc-gofer`s. All memory of its programs is one memory file,
 * `runsc-memory`, which the sentry and the processes that run the programs map together: MADV_PAGEOUT leaves pages alone that
 * are mapped more than once (mm/madvise.c). What takes them is memory.reclaim on its cgroup, which v1 does not have. No page
 * table tells whose they are then, so the store keeps them as nobody's: shared with nothing.
 */
export class RunscAdapter implements HostAdapter {
  readonly name = 'runsc';
  private readonly proc: ProcFolder;

  constructor(
    private readonly settings: Declared,
    private readonly root = '/',
  ) {
    this.proc = new ProcFolder(root);
  }

  async find(): Promise<FoundSandbox[]> {
    const sentries: Process[] = [];
    const gofers: Process[] = [];
    for (const pid of this.proc.pids()) {
      const exe = this.proc.exe(pid);
      // The file itself, where the host has it: a program in a sandbox can take its name, and must not be asked.
      if (exe === null || basename(exe) !== 'runsc' || !this.proc.runsHostFile(pid, exe)) continue;
      const argv = this.proc.argv(pid);
      if (argv[0] === 'runsc-sandbox') sentries.push({ pid, argv });
      else if (argv[0] === 'runsc-gofer') gofers.push({ pid, argv });
    }
    return sentries.map((sentry) => this.describe(sentry, gofers));
  }

  private describe(sentry: Process, gofers: readonly Process[]): FoundSandbox {
    const cgroup = this.proc.cgroup(sentry.pid);
    // Gofers serve one container each; what a sandbox has in common is its cgroup.
    const own = gofers.filter(({ pid }) => cgroup !== null && this.proc.cgroup(pid) === cgroup);
    const pids = [sentry, ...own].map(({ pid }) => pid);
    const notes = this.annotationsOf(sentry);
    const template = valueOf(notes, TEMPLATE_KEYS);
    const tenant = valueOf(notes, TENANT_KEYS);
    const sandbox: FoundSandbox = {
      id: foundId(this.name, sentry.argv.at(-1) ?? ''),
      pids,
      // Without directfs a sentry has a user namespace of its own.
      nested: true,
      ...(template === null ? {} : { template }),
      ...(tenant === null ? {} : { tenant }),
      ...this.verdict(pids, cgroup),
    };
    return asDeclared(this.name, sandbox, this.settings);
  }

  private verdict(pids: readonly number[], cgroup: string | null): Verdict & { reclaimCgroup?: string } {
    const [sentry] = pids;
    const memory = guestMemory(this.proc.smaps(sentry));
    if (memory !== null && !this.proc.maySwap(sentry)) memory.hazards.push('no_swap');
    const way = { loseSwapped: false, prePause: false };
    if (memory === null || !memory.hazards.includes('shared_memfd')) return judge(memory, way);
    const folder = join(this.root, 'sys/fs/cgroup', cgroup ?? '');
    const obstacle = this.obstacle(pids, cgroup, folder);
    if (obstacle === null) return { ...judge(memory, { ...way, byCgroup: true }), reclaimCgroup: folder };
    return { ...judge(memory, way), why: `${SHARED}; ${obstacle}` };
  }

  /** Why its cgroup can not be told to reclaim; null: it can. The root's would take memory of everybody. */
  private obstacle(pids: readonly number[], cgroup: string | null, folder: string): string | null {
    if (cgroup === null || cgroup === '/' || !hasReclaim(folder)) return 'its cgroup has no memory.reclaim';
    const strangers = cgroupPids(folder).some((pid) => !this.descends(pid, pids));
    return strangers ? 'its cgroup, whose memory.reclaim would take it, holds other processes too' : null;
  }

  private descends(pid: number, roots: readonly number[]): boolean {
    for (let at = pid; at > 1; at = this.proc.parent(at)) if (roots.includes(at)) return true;
    return false;
  }

  /** Of its bundle, and of the containers that runsc keeps state files of. */
  private annotationsOf({ argv }: Process): Annotations[] {
    const bundle = option(argv, '--bundle');
    const found = bundle === null ? [] : [json(join(bundle, 'config.json')).annotations];
    const states = option(argv, '--root');
    const ending = `_sandbox:${argv.at(-1)}.state`;
    for (const name of states === null ? [] : listed(states)) {
      if (!name.endsWith(ending)) continue;
      const { spec } = json(join(states as string, name));
      found.push((spec as Annotations | undefined)?.annotations);
    }
    return found.filter((notes): notes is Annotations => typeof notes === 'object' && notes !== null);
  }
}

function valueOf(notes: readonly Annotations[], keys: readonly string[]): string | null {
  for (const key of keys) {
    const value = notes.map((of) => of[key]).find((text) => typeof text === 'string' && text !== '');
    if (typeof value === 'string') return value;
  }
  return null;
}

function json(path: string): Annotations {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Annotations;
  } catch {
    return {};
  }
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
