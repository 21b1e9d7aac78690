import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { swapAreas } from '../../memory/swap.js';
import { packageRoot } from '../../paths.js';
import { AgentZipClient } from '../../plugin/client.js';
import { kernelPoolBytes } from '../kernel-pools.js';
import { cpuSeconds, ended, isAlive, residentBytes } from '../processes.js';
import type {
  HostEvent,
  Pools,
  SandboxStatus,
  Status,
  System,
  SystemContext,
  SystemCpu,
  SystemName,
} from '../system.js';

const MAIN = `${packageRoot}/dist/cli/main.js`;
/** What it prints when it serves. */
const READY = 'agentzip: ready';
/** A guest without KVM takes a minute. */
const START_TIMEOUT_MS = 180_000;
/** Draining pages everything back in: with the sandboxes gone it is quick, with them alive it may take long. */
const STOP_TIMEOUT_MS = 180_000;
const PAGER_EXIT_MS = 20_000;

export interface ServiceOptions {
  name: SystemName;
  /** What its policy file says beside where spans go. */
  policy?: Record<string, unknown>;
}

/** AgentZip, started as an operator starts it and driven over its control socket. */
export class AgentZipService implements System {
  readonly name: SystemName;
  private readonly runtimeDir: string;
  private readonly client: AgentZipClient;
  private readonly kernelPoolAtStart = kernelPoolBytes();
  private child: ChildProcess | undefined;
  private pagerPid = 0;
  /** Block device of its swap, once known. */
  private device = '';
  private alerts: Status['alerts'] = [];

  constructor(
    private readonly context: SystemContext,
    private readonly options: ServiceOptions,
  ) {
    this.name = options.name;
    this.runtimeDir = `${context.folder}/run`;
    this.client = new AgentZipClient(`${this.runtimeDir}/agentzip.sock`);
  }

  /** AZ_WORKLOAD_FAILED with its own words when it does not get ready. */
  async start(): Promise<void> {
    const { folder, log, spans } = this.context;
    const stateDir = `${folder}/state`;
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    const policyFile = `${folder}/policy.json`;
    const otel = spans === undefined ? {} : { otel: { file: spans } };
    writeFileSync(policyFile, JSON.stringify({ version: 1, ...otel, ...this.options.policy }));
    const args = [
      MAIN,
      'run',
      '--runtime-dir',
      this.runtimeDir,
      '--state-dir',
      stateDir,
      '--policy',
      policyFile,
    ];
    const errors = openSync(log, 'a');
    // A session of its own: Ctrl-C at the terminal is for the bench, which stops the service in order.
    this.child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', errors], detached: true });
    closeSync(errors);
    await once(this.child, 'spawn');
    await this.ready(this.child);
    const status = await this.client.status();
    this.pagerPid = status.pager.pid;
    this.device = status.pager.device;
  }

  async addTemplate(id: string, tenant: string, pid: number, memoryFile?: string): Promise<void> {
    const source = memoryFile === undefined ? { pid } : { memoryFile };
    await this.asked(this.client.putTemplate(id, { tenant, ...source }));
  }

  async addSandbox(id: string, template: string, tenant: string, cgroup: string): Promise<void> {
    await this.asked(this.client.putSandbox(id, { template, tenant, cgroup }));
  }

  async event(id: string, event: HostEvent): Promise<void> {
    await this.asked(this.client.event(id, event));
  }

  account(id: string): Promise<SandboxStatus> {
    return this.asked(this.client.getSandbox(id));
  }

  /** AgentZip may have seen the processes end, and have dropped the sandbox by itself. */
  async removeSandbox(id: string): Promise<void> {
    try {
      await this.asked(this.client.deleteSandbox(id));
    } catch (error) {
      if (!(error instanceof AgentZipError && error.code === 'AZ_UNKNOWN_SANDBOX')) throw error;
    }
  }

  async pools(): Promise<Pools> {
    const status = await this.asked(this.client.status());
    const { poolBytes, baseBytes, pid, standbyPid } = status.pager;
    this.alerts = status.alerts;
    const standby = standbyPid === null ? 0 : residentBytes(standbyPid);
    const resident = residentBytes(status.pid) + residentBytes(pid) + standby;
    return {
      pool: poolBytes + Math.max(0, kernelPoolBytes() - this.kernelPoolAtStart),
      base: baseBytes,
      overhead: Math.max(0, resident - poolBytes - baseBytes),
      status,
    };
  }

  /** A store that was full, or a page that was damaged, spoils the figures. */
  get notes(): string[] {
    return this.alerts.map(({ code, message }) => `${code}: ${message}`);
  }

  async cpu(): Promise<SystemCpu> {
    return { controller: cpuSeconds(this.child?.pid ?? 0), pager: cpuSeconds(this.pagerPid) };
  }

  /** Drains and waits for its end. Never kills: its pager may hold pages of living processes. */
  async stop(): Promise<void> {
    const pid = this.child?.pid;
    if (pid === undefined) return;
    if (isAlive(pid)) {
      this.client.drain().catch(() => {
        if (isAlive(pid)) process.kill(pid, 'SIGTERM'); // also drains, and needs no socket
      });
      if (!(await ended(pid, STOP_TIMEOUT_MS))) throw this.late(`AgentZip (pid ${pid})`);
    }
    this.client.close();
    // A service that died leaves its pager alive, as it should, also when it died before it told its pid.
    if (this.pagerPid === 0 || isAlive(this.pagerPid)) await this.drainPager();
  }

  /** Its processes that still run, and its device while it is swap. */
  left(): string[] {
    const pids = { agentzip: this.child?.pid ?? 0, pager: this.pagerPid };
    return [
      ...Object.entries(pids)
        .filter(([, pid]) => pid !== 0 && isAlive(pid))
        .map(([name, pid]) => `${name} (pid ${pid})`),
      ...swapAreas()
        .filter(({ path }) => path === this.device)
        .map(({ path }) => `swap ${path}`),
    ];
  }

  private async drainPager(): Promise<void> {
    const args = [MAIN, 'drain', '--runtime-dir', this.runtimeDir];
    const { pid = 0 } = spawn(process.execPath, args, { stdio: 'ignore', detached: true });
    if (!(await ended(pid, STOP_TIMEOUT_MS))) throw this.late('the pager');
    if (!(await ended(this.pagerPid, PAGER_EXIT_MS))) throw this.late(`the pager (pid ${this.pagerPid})`);
  }

  /** An answer of the control socket; when the service has died, what it said last. */
  private async asked<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      const pid = this.child?.pid ?? 0;
      if (isAlive(pid)) throw error;
      throw this.failed('it ended in the middle of the run');
    }
  }

  private late(what: string): AgentZipError {
    return new AgentZipError('AZ_TIMEOUT', {
      what: `draining ${what}`,
      seconds: STOP_TIMEOUT_MS / 1000,
      remedy: `run agentzip drain --runtime-dir ${this.runtimeDir}`,
    });
  }

  private ready(child: ChildProcess): Promise<void> {
    let printed = '';
    return new Promise((resolve, reject) => {
      const settle = (done: () => void): void => {
        clearTimeout(timer);
        child.off('exit', onExit);
        done();
      };
      const timer = setTimeout(
        () => settle(() => reject(this.failed('it did not get ready'))),
        START_TIMEOUT_MS,
      );
      const onExit = (code: number | null, by: string | null): void =>
        settle(() => reject(this.failed(`it ended with ${by ?? code}`)));
      child.once('exit', onExit);
      // Read to its end: a full pipe would hold the service up.
      child.stdout?.on('data', (chunk: Buffer) => {
        if (printed.includes(READY)) return;
        printed += chunk.toString();
        if (printed.includes(READY)) settle(resolve);
      });
    });
  }

  private failed(what: string): AgentZipError {
    const { log } = this.context;
    const words = readFileSync(log, 'utf8').trim().split('\n').slice(-3).join(' | ') || 'it said nothing';
    return new AgentZipError('AZ_WORKLOAD_FAILED', { reason: `AgentZip: ${what}: ${words}`, log });
  }
}
