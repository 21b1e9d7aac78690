import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { PAGE } from '../../src/native/libc.js';
import { PagerClient } from '../../src/pager/client.js';
import type { PagerStatus } from '../../src/pager/protocol.js';
import { AgentZipClient, type EventType, type SandboxStatus } from '../../src/plugin/client.js';
import type { PartialPolicy } from '../../src/policy/policy.js';
import { agentzip, COMMAND, type Outcome } from './command.js';

const READY = 'agentzip: ready';
const EXIT_MS = 30_000;
const OUT_MS = 30_000;
/** Pages of an idle Python that may stay, or be zero: its stack, what the kernel has pinned. */
const MOST_LEFT = 128;
const POLL_MS = 50;

/** `agentzip run` as an operator starts it: real pager, live swap. `stop` it in `afterEach`, sandboxes first. */
export class Service {
  readonly client: AgentZipClient;
  readonly runtimeDir: string;
  output = '';
  /** What is started next: the built command, or that of another build. */
  command = COMMAND;
  /** A program with arguments that runs it in its turn, such as setpriv. */
  as: readonly string[] = [];
  pagerPid = 0;
  device = '';
  private child!: ChildProcess;
  private exited!: Promise<number | NodeJS.Signals>;

  private constructor(
    readonly folder: string,
    private readonly policy: PartialPolicy,
  ) {
    this.runtimeDir = `${folder}/run`;
    this.client = new AgentZipClient(`${this.runtimeDir}/agentzip.sock`);
  }

  /** With a 2 GiB device and a 512 MiB store unless `policy` says otherwise. */
  static async start(
    policy: PartialPolicy = {},
    { command = COMMAND, as = [] }: { command?: string; as?: readonly string[] } = {},
  ): Promise<Service> {
    const folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
    const pager = { deviceMiB: 2048, storeMiB: 512, stagingMiB: 256, ...policy.pager };
    const service = new Service(folder, { ...policy, pager, otel: { file: `${folder}/spans` } });
    Object.assign(service, { command, as });
    await service.start();
    return service;
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** Starts the command (again) in the same folders and waits until it is ready. */
  async start(): Promise<void> {
    writeFileSync(`${this.folder}/policy.json`, JSON.stringify(this.policy));
    const dirs = ['--runtime-dir', this.runtimeDir, '--state-dir', `${this.folder}/state`];
    const run = ['run', ...dirs, '--policy', `${this.folder}/policy.json`];
    const [program, ...words] = [...this.as, process.execPath, this.command, ...run];
    const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    this.output = '';
    this.exited = once(child, 'exit').then(([code, signal]) => code ?? signal);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    while (!this.output.includes(READY)) {
      if (child.exitCode !== null) throw new Error(`agentzip run ended: ${this.output}`);
      await sleep(POLL_MS);
    }
    const { pager } = await this.client.status();
    this.pagerPid = pager.pid;
    this.device = pager.device;
  }

  /** Ends the controller with a signal; returns its exit code, or the signal it died of. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | NodeJS.Signals> {
    this.child.kill(signal);
    return this.exited;
  }

  /** Exit code of the controller, once it has ended. */
  ended(): Promise<number | NodeJS.Signals> {
    return this.exited;
  }

  drain(): Promise<Outcome> {
    return agentzip(['drain', '--runtime-dir', this.runtimeDir]);
  }

  /** Waits of tests are over as soon as pages are out, so that AgentZip would soon leave them alone: they are said to be long. */
  event(type: EventType, ...sandboxes: string[]): Promise<unknown> {
    const event = { type, ...(type === 'llm_request_sent' && { expectedMs: 60_000 }) };
    return Promise.all(sandboxes.map((id) => this.client.event(id, event)));
  }

  /** What the pager itself says. */
  async pagerStatus(): Promise<PagerStatus> {
    const pager = await PagerClient.connect(`${this.runtimeDir}/pager.sock`);
    try {
      return await pager.request('status', {});
    } finally {
      pager.close();
    }
  }

  /** Waits until nearly all of a sandbox is out, claimed and refined; returns its status then. */
  async out(id: string): Promise<SandboxStatus> {
    const unfinished = async (): Promise<object> => {
      const { ownedBytes, swappedBytes } = await this.client.getSandbox(id);
      const { owners } = await this.pagerStatus();
      const own = owners.find(({ owner }) => owner === id);
      const { slots: claimed, stagedSlots: unrefined } = own ?? { slots: 0, stagedSlots: 0 };
      const unclaimed = swappedBytes / PAGE - claimed;
      return {
        ...(ownedBytes / PAGE > MOST_LEFT && { ownedBytes }),
        // Zero pages never reach the device, and so are never claimed.
        ...(claimed === 0 || unclaimed > MOST_LEFT ? { unclaimed } : {}),
        ...(unrefined > 0 && { unrefined }),
      };
    };
    await expect.poll(unfinished, { timeout: OUT_MS }).toEqual({});
    return this.client.getSandbox(id);
  }

  /** Drains what still runs and checks that the host is clean. Never kills: the pager may hold pages of others. */
  async stop(): Promise<void> {
    const pagerLives = this.pagerPid !== 0 && existsSync(`/proc/${this.pagerPid}`);
    if (pagerLives || this.child.exitCode === null) await this.drain();
    this.client.close();
    await this.isClean();
    rmSync(this.folder, { recursive: true });
  }

  /** Throws unless swap, loop device, mount and both processes are gone. */
  async isClean(): Promise<void> {
    const deadline = Date.now() + EXIT_MS;
    const pids = [this.pid, this.pagerPid].filter((pid) => pid !== 0);
    while (pids.some((pid) => existsSync(`/proc/${pid}`)) && Date.now() < deadline) await sleep(POLL_MS);
    const left = pids.filter((pid) => existsSync(`/proc/${pid}`)).map((pid) => `process ${pid}`);
    if (this.device !== '' && readFileSync('/proc/swaps', 'utf8').includes(`${this.device} `))
      left.push('swap');
    if (readFileSync('/proc/mounts', 'utf8').includes(this.runtimeDir)) left.push('mount');
    if (loopFiles().some((file) => file.startsWith(this.runtimeDir))) left.push('loop device');
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}; the service said: ${this.output}`);
  }
}

/** Files behind loop devices. */
function loopFiles(): string[] {
  return readdirSync('/sys/block')
    .map((name) => `/sys/block/${name}/loop/backing_file`)
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8').trim());
}

/** Bytes of a process that are out, as the kernel counts them. */
export function swappedBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmSwap:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
