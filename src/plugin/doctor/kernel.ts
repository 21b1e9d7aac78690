import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { AgentZipError, explain } from '../../errors.js';
import { close } from '../../native/files.js';
import { MADV_PAGEOUT, pidfdOpen, processMadvise } from '../../native/process.js';
import { atLeast, readText, type ReadText, type Requirement } from './requirement.js';

/** The first with remote MADV_WILLNEED. */
const KERNEL = '5.15';
/** The first with FUSE_NOTIFY_RESEND; memory files that never swap came with 6.4. */
const TAKEOVER = '6.9';
const BTF = '/sys/kernel/btf/vmlinux';

export function kernel(read: ReadText, architecture: string): Requirement[] {
  const release = read('/proc/sys/kernel/osrelease') ?? 'unknown';
  const btf = existsSync(BTF);
  return [
    {
      id: 'kernel',
      level: 'required',
      ok: atLeast(release, KERNEL),
      found: release,
      needed: `Linux ${KERNEL} or later`,
      remedy: 'boot a later kernel',
    },
    {
      id: 'architecture',
      level: 'required',
      ok: architecture === 'x64' || architecture === 'arm64',
      found: architecture,
      needed: 'x64 or arm64',
      remedy: 'use a supported machine',
    },
    {
      id: 'takeover',
      level: 'optional',
      ok: atLeast(release, TAKEOVER),
      found: release,
      needed: `Linux ${TAKEOVER} or later: the standby then loses nothing when the pager dies, over whatever front end`,
      remedy:
        'boot a later kernel; with this one a page in flight over fuse-loop may hang then, and before 6.4 the store may be swapped to its own device',
    },
    {
      id: 'BTF',
      level: 'optional',
      ok: btf,
      found: btf ? BTF : 'no',
      needed: 'probes are fitted to the kernel with it',
      remedy: new AgentZipError('AZ_BTF_MISSING', { path: BTF }).remedy,
    },
    pressure(read),
    ...cgroups(read),
  ];
}

/** Whether tasks wait for memory: what the mode `pressure` goes by, besides the memory that is available. */
function pressure(read: ReadText): Requirement {
  const found = read('/proc/pressure/memory');
  return {
    id: 'memory pressure',
    level: 'optional',
    ok: found !== null,
    found: found?.split('\n')[0] ?? 'no /proc/pressure/memory',
    needed: 'tells that tasks wait for memory; without it only the available memory does',
    remedy: new AgentZipError('AZ_PSI_MISSING', { reason: '' }).remedy,
  };
}

/** Where the memory controller is: `v1` or `v2` and its mount. */
export function memoryController(read: ReadText): { version: 1 | 2; mount: string } | null {
  for (const line of (read('/proc/self/mountinfo') ?? '').split('\n')) {
    const [before, after = ''] = line.split(' - ');
    const mount = before.split(' ')[4];
    const [type, , options = ''] = after.split(' ');
    if (type === 'cgroup' && options.split(',').includes('memory')) return { version: 1, mount };
    const controllers = type === 'cgroup2' ? read(`${mount}/cgroup.controllers`) : null;
    if (controllers?.split(' ').includes('memory')) return { version: 2, mount };
  }
  return null;
}

function cgroups(read: ReadText): Requirement[] {
  const memory = memoryController(read);
  const controller: Requirement = {
    id: 'memory cgroup',
    level: 'optional',
    ok: memory !== null,
    found: memory ? `v${memory.version} at ${memory.mount}` : 'no',
    needed: 'sandboxes can be registered by cgroup',
    remedy: 'mount the cgroup file system with its memory controller',
  };
  return memory ? [controller, swapLimit(read, memory)] : [controller];
}

/** Swap that cgroups may use. Kubernetes without NodeSwap sets 0, and then nothing can be paged out. */
function swapLimit(read: ReadText, { version, mount }: { version: 1 | 2; mount: string }): Requirement {
  const pattern = version === 2 ? /^0::(.*)$/m : /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m;
  const own = pattern.exec(read('/proc/self/cgroup') ?? '')?.[1] ?? '/';
  const file = version === 2 ? 'memory.swap.max' : 'memory.memsw.limit_in_bytes';
  const limit = read(`${mount}${own === '/' ? '' : own}/${file}`);
  return {
    id: file,
    level: 'optional',
    ok: limit !== '0',
    found: limit ?? 'no limit on this cgroup',
    needed: 'not 0: cgroups of sandboxes may swap (their own values count)',
    remedy: version === 2 ? 'set memory.swap.max to max' : 'raise memory.memsw.limit_in_bytes',
  };
}

/** Asks the kernel to page out a page of another process, as AgentZip does all day. */
export async function processMadviseWorks(): Promise<Requirement> {
  let failure: string | null = null;
  try {
    await advise();
  } catch (error) {
    failure = explain(error);
  }
  return {
    id: 'process_madvise',
    level: 'required',
    ok: failure === null,
    found: failure ?? 'works',
    needed: 'pages out what sandboxes do not use while they wait',
    remedy: 'grant CAP_SYS_NICE and CAP_SYS_PTRACE; allow the call in the seccomp profile',
  };
}

async function advise(): Promise<void> {
  const child = spawn('sleep', ['30'], { stdio: 'ignore' });
  try {
    await once(child, 'spawn');
    const maps = readText(`/proc/${child.pid}/maps`) ?? '';
    const stack = /^([0-9a-f]+)-([0-9a-f]+) .*\[stack\]$/m.exec(maps);
    if (!stack) throw new Error('no [stack] in the maps of the probe process');
    const [address, end] = [parseInt(stack[1], 16), parseInt(stack[2], 16)];
    const pidfd = pidfdOpen(child.pid ?? 0);
    try {
      await processMadvise(pidfd, [{ address, length: end - address }], MADV_PAGEOUT);
    } finally {
      close(pidfd);
    }
  } finally {
    child.kill('SIGKILL');
  }
}
