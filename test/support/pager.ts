import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface, type Interface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { PagerClient } from '../../src/pager/client.js';
import type { PagerOptions } from '../../src/pager/options.js';
import { startPager } from '../../src/pager/start.js';
import { packageRoot } from '../../src/paths.js';
import { ENCODING } from './store.js';

export interface TestPager {
  client: PagerClient;
  runtimeDir: string;
  pid: number;
  device: string;
  swapType: number;
}

export const testPagerOptions = (runtimeDir: string): PagerOptions => ({
  runtimeDir,
  frontEnd: 'fuse-loop',
  tier: 'direct',
  deviceBytes: 2 * 2 ** 30,
  storeBytes: 2 ** 30,
  stagingBytes: 2 ** 29,
  workers: 1,
  encoding: ENCODING,
  standby: true,
});

/** A pager of its own, with live swap: `stopPager` it in a `finally` or `afterEach`. */
export async function launchPager(options: Partial<PagerOptions> = {}): Promise<TestPager> {
  const runtimeDir = mkdtempSync('/run/agentzip-test-');
  const client = await startPager({ ...testPagerOptions(runtimeDir), ...options });
  const { pid, device, swapType } = await client.request('hello', {});
  return { client, runtimeDir, pid, device, swapType };
}

/** Drains and waits until swap, loop device and mount are gone. End the processes that use it first. */
export async function stopPager(pager: TestPager | undefined): Promise<void> {
  if (pager === undefined) return;
  await pager.client.drain();
  pager.client.close();
  for (let waited = 0; existsSync(`/proc/${pager.pid}`) && waited < 10_000; waited += 20) await sleep(20);
  if (readFileSync('/proc/swaps', 'latin1').includes(pager.device))
    throw new Error(`${pager.device} is still swap`);
  rmSync(pager.runtimeDir, { recursive: true });
}

/** A Python process that owns patterned memory (fixtures/hog.py), in a memory cgroup of its own when limited. */
export class Hog {
  private readonly lines: Interface;
  private readonly answers: AsyncIterableIterator<string>;

  private constructor(
    private readonly child: ChildProcess,
    private readonly cgroup: string | undefined,
  ) {
    this.lines = createInterface({ input: child.stdout! });
    this.answers = this.lines[Symbol.asyncIterator]();
  }

  static async start(mib: number, limitMib?: number): Promise<Hog> {
    let cgroup: string | undefined;
    const args = [`${packageRoot}/test/fixtures/hog.py`, String(mib)];
    if (limitMib !== undefined) {
      cgroup = makeCgroup(limitMib);
      args.push(`${cgroup}/cgroup.procs`);
    }
    const child = spawn('/usr/bin/python3', args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const hog = new Hog(child, cgroup);
    await hog.answer();
    return hog;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Lifts the memory limit. */
  unlimit(): void {
    const v1 = `${this.cgroup}/memory.limit_in_bytes`;
    if (existsSync(v1)) writeFileSync(v1, '-1');
    else writeFileSync(`${this.cgroup}/memory.max`, 'max');
  }

  ask(command: 'verify' | 'rewrite'): Promise<string> {
    this.child.stdin!.write(`${command}\n`);
    return this.answer();
  }

  async stop(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = new Promise((resolve) => this.child.once('exit', resolve));
      this.child.kill('SIGKILL');
      await ended;
    }
    if (this.cgroup === undefined) return;
    for (let attempt = 0; attempt < 50; attempt++) {
      try {
        return rmdirSync(this.cgroup);
      } catch {
        await sleep(20);
      }
    }
  }

  private async answer(): Promise<string> {
    const { value, done } = await this.answers.next();
    if (done === true) throw new Error(`the hog ended (${this.child.exitCode ?? this.child.signalCode})`);
    return value;
  }
}

function makeCgroup(limitMib: number): string {
  const v2 = existsSync('/sys/fs/cgroup/cgroup.controllers');
  const path = `/sys/fs/cgroup/${v2 ? '' : 'memory/'}agentzip-test-${process.pid}`;
  mkdirSync(path);
  writeFileSync(`${path}/${v2 ? 'memory.max' : 'memory.limit_in_bytes'}`, String(limitMib * 2 ** 20));
  return path;
}
