import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageRoot } from '../../src/paths.js';

/** A guest's run: what it printed, and the exit status of its script; null when it did not come to an end. */
export interface GuestRun {
  lines: string[];
  status: number | null;
}

export interface GuestOptions {
  memoryMiB?: number;
  cpus?: number;
  timeoutMs: number;
}

/** AGENTZIP_VM=long, as `npm run test:vm` has it: all of what is done in guests. Else what `npm test` has time for. */
export const LONG = process.env.AGENTZIP_VM === 'long';

/** Debian's; not on the PATH. */
const VIRTIOFSD = '/usr/lib/qemu/virtiofsd';
const SOCKET_MS = 5_000;
const ARGUMENTS =
  'console=ttyS0 mitigations=off quiet panic=-1 no_timer_check tsc=reliable random.trust_cpu=on';

/**
 * Folder with kernel and initramfs of the guest, made when they are missing (deploy/vm/prepare.sh). Null, with the reason
 * said, when this machine can not have them; CI must be able to. `kernelPackage`: Debian's name of another kernel than the usual one.
 */
export function prepareGuest(kernelPackage?: string): string | null {
  if (process.arch !== 'x64') return missing('its kernel is for x86-64');
  const made = spawnSync(
    'sh',
    [`${packageRoot}/deploy/vm/prepare.sh`, ...(kernelPackage === undefined ? [] : [kernelPackage])],
    { encoding: 'utf8' },
  );
  if (made.status === 0) return made.stdout.trim();
  return missing(made.stderr);
}

function missing(reason: string): null {
  if (process.env.CI !== undefined) throw new Error(`CI must be able to run a test guest: ${reason}`);
  process.stdout.write(`no test guest: ${reason}\n`);
  return null;
}

/**
 * Runs a shell script in a virtual machine (QEMU without KVM: some 20 times slower than the host) that sees the host's
 * files read only, has cgroup v2, and memory of its own in /run. The host's swap and processes stay out of it.
 */
export async function runInGuest(folder: string, script: string, options: GuestOptions): Promise<GuestRun> {
  const work = mkdtempSync(`${tmpdir()}/agentzip-vm-`);
  const socket = `${work}/fs.sock`;
  const children: ChildProcess[] = [];
  try {
    const share = ['-o', 'source=/', '-o', 'cache=always', '-o', 'sandbox=chroot', '--thread-pool-size=1'];
    children.push(spawn(VIRTIOFSD, [`--socket-path=${socket}`, ...share], { stdio: 'ignore' }));
    for (let waited = 0; !existsSync(socket); waited += 20) {
      if (waited > SOCKET_MS) throw new Error(`${VIRTIOFSD} does not listen`);
      await sleep(20);
    }
    return await boot(folder, socket, script, options, children);
  } finally {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
    rmSync(work, { recursive: true, force: true });
  }
}

/** Not KVM: where a virtual machine has it, QEMU may fail in the middle of its start (kvm_buf_set_msrs). */
const ACCELERATOR = 'tcg,thread=multi,tb-size=128';

async function boot(
  folder: string,
  socket: string,
  script: string,
  { memoryMiB = 768, cpus = 1, timeoutMs }: GuestOptions,
  children: ChildProcess[],
): Promise<GuestRun> {
  const command = Buffer.from(script).toString('base64');
  const words = `
    -accel ${ACCELERATOR} -M q35 -cpu max -smp ${cpus} -m ${memoryMiB} -nodefaults -no-reboot -display none
    -serial stdio -object memory-backend-memfd,id=memory,size=${memoryMiB}M,share=on -machine memory-backend=memory
    -chardev socket,id=fs,path=${socket} -device vhost-user-fs-pci,chardev=fs,tag=host,queue-size=1024
    -kernel ${folder}/vmlinux -initrd ${folder}/initramfs -append`.trim();
  const append = `${ARGUMENTS} vm.run=${command}`;
  const guest = spawn('qemu-system-x86_64', [...words.split(/\s+/), append], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(guest);
  const lines: string[] = [];
  let status: number | null = null;
  createInterface({ input: guest.stdout! }).on('line', (line) => {
    const end = /VM-EXIT (\d+)/.exec(line);
    process.stdout.write(`guest: ${line.trimEnd()}\n`);
    if (end === null) lines.push(line.trimEnd());
    else status = Number(end[1]);
  });
  await Promise.race([once(guest, 'exit'), sleep(timeoutMs, undefined, { ref: false })]);
  return { lines, status };
}
