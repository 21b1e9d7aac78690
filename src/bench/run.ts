import { explain } from '../errors.js';
import { type AgentPort, runAgent } from './agent.js';
import { SandboxCgroups } from './cgroups.js';
import { Cleanup } from './cleanup.js';
import { LlmServer } from './llm.js';
import type { RunRecord } from './record.js';
import { Sampler } from './sampler.js';
import type { System } from './system.js';
import { type Sandbox, Template } from './template.js';
import type { Trajectory } from './trajectory.js';
import type { RunView } from './view.js';

const TEMPLATE_ID = 'python';

export interface RunOptions {
  system: System;
  trajectories: readonly Trajectory[];
  seed: number;
  /** Folder for sockets and caches; the caller removes it. */
  folder: string;
  view: RunView;
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
  const { system, trajectories, folder, view, signal } = options;
  const llm = await LlmServer.listen(trajectories);
  cleanup.defer('the model server', () => llm.close());
  const cgroups = SandboxCgroups.create();
  view.stage(`starting ${system.name === 'none' ? 'without AgentZip' : 'AgentZip'}`);
  // Deferred first, so run last: the sandboxes are gone by then, and there is little to page in.
  cleanup.defer(system.name, () => system.stop());
  cleanup.defer('the cgroups', () => cgroups.removeAll());
  await system.start();
  signal.throwIfAborted();
  view.stage('starting the template');
  const template = await Template.start(folder);
  cleanup.defer('the template', () => template.end());
  await system.addTemplate(TEMPLATE_ID, template.pid);
  const sampler = new Sampler(system);
  cleanup.defer('the sampler', () => sampler.stop());
  view.attach(sampler);
  const fanOut = new FanOut(options, { cgroups, template, sampler, modelUrl: llm.url });
  const sandboxes = await fanOut.start(cleanup);
  view.stage('running');
  sampler.start();
  const from = Date.now();
  await fanOut.run(sandboxes);
  const to = Date.now();
  await sampler.stop();
  sampler.check();
  const { samples, fullest } = sampler;
  const { served } = llm;
  return { system: system.name, from, to, samples, fullest, served, ...fanOut.results };
}

interface Parts {
  cgroups: SandboxCgroups;
  template: Template;
  sampler: Sampler;
  modelUrl: string;
}

/** The sandboxes of a run and their agents. */
class FanOut {
  readonly results: Pick<RunRecord, 'waits' | 'calls' | 'accounts'> = { waits: [], calls: [], accounts: [] };

  constructor(
    private readonly options: RunOptions,
    private readonly parts: Parts,
  ) {}

  async start(cleanup: Cleanup): Promise<Sandbox[]> {
    const { system, trajectories, signal } = this.options;
    const sandboxes: Sandbox[] = [];
    for (const { sandbox: id } of trajectories) {
      signal.throwIfAborted();
      const cgroup = this.parts.cgroups.add(id);
      const sandbox = await this.parts.template.fork(id, cgroup);
      cleanup.defer(id, async () => void (await sandbox.end()));
      await system.addSandbox(id, TEMPLATE_ID, cgroup);
      this.parts.sampler.add(id, cgroup);
      sandboxes.push(sandbox);
    }
    return sandboxes;
  }

  /** Runs all agents; when one fails the others are stopped before its error is thrown. */
  async run(sandboxes: readonly Sandbox[]): Promise<void> {
    const failed = new AbortController();
    const signal = AbortSignal.any([this.options.signal, failed.signal]);
    const outcomes = await Promise.allSettled(
      this.options.trajectories.map(async (trajectory, i) => {
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
    const { system, seed } = this.options;
    await runAgent(trajectory, sandbox, this.portOf(sandbox.id), {
      modelUrl: this.parts.modelUrl,
      seed,
      signal,
    });
    const account = await system.account(sandbox.id);
    if (account !== null) this.results.accounts.push(account);
    this.parts.sampler.remove(sandbox.id);
    await sandbox.end();
    await this.parts.cgroups.remove(sandbox.id);
    await system.removeSandbox(sandbox.id);
  }

  private portOf(id: string): AgentPort {
    const { system, view } = this.options;
    return {
      event: (event) => system.event(id, event),
      waitEnded: (turn, waitedMs) => {
        this.results.waits.push({ sandbox: id, turn, waitedMs, ...this.parts.sampler.measure(id) });
      },
      called: (call) => {
        this.results.calls.push(call);
      },
      activity: (turn, activity, tool) => view.activity(id, turn, activity, tool),
    };
  }
}
