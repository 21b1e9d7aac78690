import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { failed, within } from '../lines.js';
import { Monitor } from './qmp.js';
import type { Snapshot } from './snapshot.js';

const QEMU = '/usr/bin/qemu-system-x86_64';
const START_TIMEOUT_MS = 60_000;
const POLL_MS = 5;
const STDIO = ['pipe', 'pipe', 'inherit', 'pipe'] as const;
/** The machine's port is this descriptor of QEMU's. */
const PORT_FD = 3;

const MEMORY_MIB = 192;

/**
 * What a monitor on KVM has none of: code that the emulator has translated. `split-wx` keeps it in a memory file mapped
 * shared, apart from the sandbox's own pages.
 */
const TRANSLATION = 'tcg,thread=single,tb-size=32,split-wx=on';
/**
 * Without cmpxchg16b: a guest under QEMU 7.2 was seen to end in a double fault behind one of its allocator's, with flags that
 * were part of a pointer.
 */
const PROCESSOR = 'max,cx16=off';
/** What a kernel does time and again although nobody asks for anything, put off: a guest that wakes has the same pages back each time. */
const QUIET =
  'nowatchdog psi=0 cgroup_disable=memory sysctl.vm.compaction_proactiveness=0 sysctl.vm.stat_interval=3600 ' +
  ['ipv4', 'ipv6'].map((net) => `sysctl.net.${net}.neigh.default.interval_probe_time_ms=3600000`).join(' ');
/** Freed pages are zeroed, and memory comes in small pages: both keep what a machine does not use from taking memory. */
const COMMAND_LINE =
  'console=ttyS0 rootfstype=ramfs quiet panic=-1 reboot=t mitigations=off nokaslr no_timer_check tsc=reliable ' +
  `random.trust_cpu=on init_on_free=1 transparent_hugepage=never ${QUIET} PYTHONHASHSEED=0`;

/** The cgroup (its file cgroup.procs) that a machine moves into first, and the file that its console goes to. */
export interface Place {
  procs: string;
  console: string;
}

export interface BootOptions {
  kernel: string;
  initramfs: string;
  /** Takes what the kernel and the first process print. */
  console: string;
}

/** A virtual machine under QEMU, without KVM: much slower than the host. */
export class Machine {
  private constructor(
    private readonly child: ChildProcess,
    private readonly monitor: Monitor,
  ) {}

  /** Boots one whose memory is the file at `memory`: what it writes goes there. */
  static boot(memory: string, { kernel, initramfs, console }: BootOptions): Promise<Machine> {
    const boot = ['-kernel', kernel, '-initrd', initramfs, '-append', COMMAND_LINE];
    return Machine.start([...machine(memory, 'on'), '-serial', `file:${console}`, ...boot]);
  }

  /**
   * Starts one from a saved state, stopped. Its memory is a private mapping of the file, as Firecracker's: pages that it
   * writes become its own.
   */
  static async restore({ memory, state }: Snapshot, { procs, console }: Place): Promise<Machine> {
    const args = [...machine(memory, 'off'), '-serial', `file:${console}`, '-incoming', 'defer'];
    const restored = await Machine.start(args, procs);
    try {
      await restored.monitor.run('migrate-set-capabilities', MEMORY_STAYS);
      await restored.monitor.run('migrate-incoming', { uri: `exec:exec cat '${state}'` });
      await restored.until('query-status', ({ status }) => status !== 'inmigrate', 'the restored machine');
      return restored;
    } catch (error) {
      await restored.end();
      throw error;
    }
  }

  private static async start(args: readonly string[], procs = '/dev/null'): Promise<Machine> {
    // Its own memory is then alike in all of them, as far as it can be: see docs/benchmarks.md.
    const shell = 'echo 0 > "$0" && exec /usr/bin/setarch -R /usr/bin/setpriv --pdeathsig KILL "$@"';
    const child = spawn('/bin/sh', ['-c', shell, procs, QEMU, ...args], { stdio: [...STDIO] });
    const [input, output] = [child.stdin as Writable, child.stdout as Readable];
    try {
      const monitor = await within(Monitor.open(output, input), START_TIMEOUT_MS, 'the start of QEMU');
      return new Machine(child, monitor);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Both ends of the machine's port. */
  get port(): Socket {
    return this.child.stdio[PORT_FD] as Socket;
  }

  get ended(): Promise<unknown> {
    return this.outcome === null ? once(this.child, 'exit') : Promise.resolve();
  }

  /** Its exit code, or the signal that ended it; null while it runs. */
  get outcome(): number | string | null {
    return this.child.exitCode ?? this.child.signalCode;
  }

  async run(): Promise<void> {
    await this.monitor.run('cont');
  }

  /** Stops it and writes all but its memory to `state`; its memory is in its file. */
  async save(state: string): Promise<void> {
    await this.monitor.run('stop');
    await this.monitor.run('migrate-set-capabilities', MEMORY_STAYS);
    await this.monitor.run('migrate', { uri: `exec:exec cat > '${state}'` });
    const { status } = await this.until(
      'query-migrate',
      ({ status: now }) => now === 'completed' || now === 'failed',
      'saving the machine',
    );
    if (status === 'failed') throw failed('QEMU could not save the machine');
  }

  async end(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  private async until(
    query: string,
    done: (answer: { status?: string }) => boolean,
    what: string,
  ): Promise<{ status?: string }> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const answer = await this.monitor.run<{ status?: string }>(query);
      if (done(answer)) return answer;
      if (Date.now() > deadline) throw failed(`${what} took longer than ${START_TIMEOUT_MS / 1000} s`);
      await sleep(POLL_MS);
    }
  }
}

/** Leaves memory that is a file's out of saved states (migration capability of QEMU). */
const MEMORY_STAYS = { capabilities: [{ capability: 'x-ignore-shared', state: true }] };

/** What a saved machine depends on, beside what it was booted with: another QEMU may not read its state. */
export function machineDescription(): string {
  const { size, mtimeMs } = statSync(QEMU);
  return JSON.stringify([size, mtimeMs, COMMAND_LINE, machine('', 'on')]);
}

/** The same for a machine and what is restored from it. */
const machine = (memory: string, share: 'on' | 'off'): string[] => [
  ...['-accel', TRANSLATION, '-cpu', PROCESSOR, '-smp', '1', '-m', String(MEMORY_MIB)],
  ...['-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none'],
  ...['-object', `memory-backend-file,id=memory,size=${MEMORY_MIB}M,mem-path=${memory},share=${share}`],
  ...['-machine', 'q35,memory-backend=memory,mem-merge=off,vmport=off,smm=off'],
  ...['-chardev', 'stdio,id=monitor', '-mon', 'chardev=monitor,mode=control'],
  ...['-chardev', `socket,id=port,fd=${PORT_FD}`, '-device', 'virtio-serial-pci'],
  ...['-device', 'virtserialport,chardev=port,name=tools'],
];
