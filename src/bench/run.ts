import { setMaxListeners } from 'node:events';
import { explain } from '../errors.js';
import { type AgentPort, runAgent } from './agent.js';
import { pidsOf, SandboxCgroups } from './cgroups.js';
import { Cleanup } from './cleanup.js';
import { LlmServer } from './llm.js';
import type { RunRecord } from './record.js';
import { RunMeter } from './run-meter.js';
import { Sampler } from './sampler.js';
import { SandboxCpu } from './sandbox-cpu.js';
import { Reception, type Sandbox } from './sandbox.js';
import { labelOf, type System } from './system.js';
import { undoStale } from './systems/host-changes.js';
import { Template } from './template.js';
import type { RunView } from './view.js';
import type { Plan, Trajectory } from './workload.js';

/** A sandbox whose wait has ended. */
export interface WaitingSandbox {
  id: string;
  template: string;
  tenant: string;
  pids(): number[];
}

/** Looks into a fan-out at instants at which nothing of it runs; the fan-out waits for it. */
export interface Onlooker {
  /** The template is warmed and known to the system; nothing was made from it yet. */
  templateReady(id: string, tenant: string, pid: number, memoryFile?: string): Promise<void>;
  /** `turn` counts from 1 to `turns`. Nobody was told yet that the wait is over. */
  waitEnded(sandbox: WaitingSandbox, turn: number, turns: number): Promise<void>;
}

export interface RunOptions {
  /** Makes the system under test; called once. */
  make: (cgroups: SandboxCgroups) => System;
  plan: Plan;
  seed: number;
  /** Folder for sockets and caches; the caller removes it. */
  folder: string;
  view: RunView;
  onlooker?: Onlooker;
  /** Ends the run early; what it started is ended in order all the same. */
  signal: AbortSignal;
}

/**
 * Runs one fan-out under one system, from the template's start to the system's end. Nothing it started is left when
 * it resolves or rejects. AZ_WORKLOAD_FAILED when a tool or a sandbox fails; the signal's reason when it was stopped.
 */
export async function runFanOut(options: RunOptions): Promise<RunRecord> {
  const cleanup = new Cleanup();
  let failure: unknown;
  let record: RunRecord | undefined;
  try {
    record = await drive(options, cleanup);
  } catch (error) {
    failure = options.signal.aborted ? options.signal.reason : error;
  }
  options.view.stage('ending');
  try {
    await cleanup.run();
  } catch (error) {
    // The first failure is the cause of the second, and the host's state is checked once more at the very end.
    if (failure === undefined) throw error;
    options.view.note(explain(error));
  }
  if (record === undefined) throw failure;
  return record;
}

/** Starts the parts, each with its end deferred, and lets the agents run. */
async function drive(options: RunOptions, cleanup: Cleanup): Promise<RunRecord> {
  const { plan, folder, view, signal } = options;
  for (const what of await undoStale()) view.note(`left by a bench that was killed, and undone: ${what}`);
  const llm = await LlmServer.listen(plan.trajectories);
  cleanup.defer('the model server', () => llm.close());
  // Deferred first, so run last: the sandboxes are gone by then, and there is little to page in.
  let made: System | undefined;
  cleanup.defer('the system', () => made?.stop());
  const cgroups = SandboxCgroups.create();
  const cpu = SandboxCpu.create();
  cleanup.defer('the accounting', () => cpu.end());
  cleanup.defer('the cgroups', () => cgroups.removeAll());
  const system = (made = options.make(cgroups));
  view.stage(`starting ${labelOf(system.name).replace(/^with /, '')}`);
  await system.start();
  view.stage('starting the template');
  const reception = await Reception.listen(`${folder}/sandboxes.sock`);
  cleanup.defer('the reception', () => reception.close());
  const templates = new Map<string, Template>();
  for (const of of plan.templates) {
    signal.throwIfAborted();
    const template = await Template.start(of, folder, reception, system.launcher);
    templates.set(of.id, template);
    cleanup.defer(`template ${of.id}`, () => template.end());
    const { pid, memoryFile } = template;
    await system.addTemplate(of.id, of.tenant, pid, memoryFile);
    await options.onlooker?.templateReady(of.id, of.tenant, pid, memoryFile);
  }
  const sampler = new Sampler(system);
  cleanup.defer('the sampler', () => sampler.stop());
  view.attach(sampler);
  const fanOut = new FanOut(options, { system, cgroups, cpu, templates, sampler, modelUrl: llm.url });
  const sandboxes = await fanOut.start(cleanup);
  view.stage('running');
  const pids = [...templates.values()].map(({ pid }) => pid);
  const meter = await RunMeter.start({ system, sandboxes: cpu, templates: pids, folder });
  cleanup.defer('the meter', () => meter.stop());
  sampler.start();
  const from = Date.now();
  await fanOut.run(sandboxes);
  const to = Date.now();
  const usage = await meter.finish();
  await sampler.stop();
  sampler.check();
  const { samples, fullest } = sampler;
  const { served } = llm;
  const notes = [...(system.notes ?? [])];
  return { system: system.name, from, to, samples, fullest, served, notes, ...usage, ...fanOut.results };
}

interface Parts {
  system: System;
  cgroups: SandboxCgroups;
  cpu: SandboxCpu;
  templates: ReadonlyMap<string, Template>;
  sampler: Sampler;
  modelUrl: string;
}

/** A program that is started afresh keeps a core busy for seconds. */
const STARTS_AT_ONCE = 2;

/** The sandboxes of a run and their agents. */
class FanOut {
  readonly results: Pick<RunRecord, 'waits' | 'calls' | 'accounts'> = { waits: [], calls: [], accounts: [] };

  constructor(
    private readonly options: RunOptions,
    private readonly parts: Parts,
  ) {}

  async start(cleanup: Cleanup): Promise<Sandbox[]> {
    const { trajectories } = this.options.plan;
    const sandboxes: Sandbox[] = [];
    for (let at = 0; at < trajectories.length; at += STARTS_AT_ONCE) {
      this.options.signal.throwIfAborted();
      const batch = trajectories.slice(at, at + STARTS_AT_ONCE);
      // All of them settle before one that failed is thrown: none starts behind the cleanup's back.
      for (const started of await Promise.allSettled(batch.map((one) => this.startOne(one, cleanup)))) {
        if (started.status === 'rejected') throw started.reason;
        sandboxes.push(started.value);
      }
    }
    return sandboxes;
  }

  private async startOne(
    { sandbox: id, template: of, tenant }: Trajectory,
    cleanup: Cleanup,
  ): Promise<Sandbox> {
    const { system, cgroups, templates } = this.parts;
    const template = templates.get(of);
    if (template === undefined) throw new Error(`${id} names template ${of}, which the plan has not`);
    const cgroup = cgroups.add(id);
    const sandbox = await template.make(id, cgroup);
    cleanup.defer(id, async () => void (await sandbox.end()));
    await system.addSandbox(id, of, tenant, cgroup);
    this.parts.cpu.add(id, cgroup);
    this.parts.sampler.add(id, cgroup);
    return sandbox;
  }

  /** Runs all agents; when one fails the others are stopped before its error is thrown. */
  async run(sandboxes: readonly Sandbox[]): Promise<void> {
    const failed = new AbortController();
    const signal = AbortSignal.any([this.options.signal, failed.signal]);
    setMaxListeners(0, signal); // every agent listens to it
    const outcomes = await Promise.allSettled(
      this.options.plan.trajectories.map(async (trajectory, i) => {
        try {
          await this.attempt(trajectory, sandboxes[i], signal);
        } catch (error) {
          if (!signal.aborted) failed.abort(error);
          throw error;
        }
      }),
    );
    signal.throwIfAborted();
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  /** One attempt at the task: its agent, then the end of its sandbox, as a platform frees what is done. */
  private async attempt(trajectory: Trajectory, sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    const { system } = this.parts;
    await runAgent(trajectory, sandbox, this.portOf(trajectory, sandbox), {
      modelUrl: this.parts.modelUrl,
      seed: this.options.seed,
      signal,
    });
    const account = await system.account(sandbox.id);
    if (account !== null) this.results.accounts.push(account);
    this.parts.sampler.remove(sandbox.id);
    this.parts.cpu.remove(sandbox.id);
    await sandbox.end();
    await this.parts.cgroups.remove(sandbox.id);
    await system.removeSandbox(sandbox.id);
  }

  private portOf({ template, tenant, turns }: Trajectory, { id, cgroup }: Sandbox): AgentPort {
    const { view, onlooker } = this.options;
    const { system } = this.parts;
    return {
      event: (event) => system.event(id, event),
      waitEnded: async (turn, waitedMs) => {
        this.results.waits.push({ sandbox: id, turn, waitedMs, ...this.parts.sampler.measure(id) });
        const waiting = { id, template, tenant, pids: () => pidsOf(cgroup) };
        await onlooker?.waitEnded(waiting, turn + 1, turns.length);
      },
      called: (call) => {
        this.results.calls.push(call);
      },
      activity: (turn, activity, tool) => view.activity(id, turn, activity, tool),
    };
  }
}
