import { resolve } from 'node:path';
import type { ControllerApi, Status } from '../controller/api.js';
import { createController, type Controller } from '../controller/controller.js';
import { AgentZipError } from '../errors.js';
import { version } from '../paths.js';
import { createTelemetry } from '../otel/telemetry.js';
import { loadPolicy } from '../policy/load.js';
import type { Policy } from '../policy/policy.js';
import { serveDashboard, type Served } from './dashboard/serve.js';
import { requireHost } from './doctor.js';
import { DrainGate } from './drain-gate.js';
import { InstanceLock } from './lock.js';
import { checkedRuntimeDir, controlSocket } from './runtime-files.js';
import { ControlServer } from './server.js';
import { groupId } from './socket.js';
import { Undo } from './undo.js';

export interface StartOptions {
  /** YAML or JSON; without one the defaults hold. */
  policyFile?: string;
  /** Take the place of `paths` in the policy. */
  runtimeDir?: string;
  stateDir?: string;
  /** Told of errors that are no answer to anybody. */
  onError?: (error: AgentZipError) => void;
}

/** A running AgentZip. */
export interface AgentZip {
  readonly policy: Policy;
  readonly socketPath: string;
  readonly api: ControllerApi;
  /** The page for browsers; null when there is none. */
  readonly dashboard: Pick<Served, 'address' | 'file'> | null;
  /** Status when it had started. */
  readonly started: Status;
  /**
   * Resolves when AgentZip has ended because it was drained, by `stop` or by a host. Rejects with AZ_PAGER_LOST when
   * its pager went away.
   */
  readonly ended: Promise<void>;
  /** Drains and ends. Rejects with AZ_DRAIN_MEMORY, and keeps running, when the memory does not suffice. */
  stop(): Promise<void>;
}

/**
 * Checks the host, starts the controller (and with it the pager) and serves the control socket.
 * Errors: AZ_POLICY_*, those of the host's requirements, AZ_ALREADY_RUNNING, AZ_PAGER_START and others of the table;
 * then nothing is left behind.
 */
export async function startAgentZip(options: StartOptions = {}): Promise<AgentZip> {
  const policy = effectivePolicy(options);
  requireHost();
  const undo = new Undo();
  try {
    return await start(policy, options, undo);
  } catch (error) {
    await undo.run().catch(() => {});
    throw error;
  }
}

async function start(policy: Policy, options: StartOptions, undo: Undo): Promise<AgentZip> {
  const { group } = policy.server;
  const gid = group === null ? undefined : groupId(group);
  const lock = InstanceLock.take(policy.paths.runtimeDir, gid);
  undo.add(() => lock.release());
  const telemetry = createTelemetry(policy.otel, { version });
  undo.add(() => telemetry.shutdown());
  const api = await createController(policy, telemetry);
  undo.add(() => api.close());
  try {
    return await serve(api, policy, { ...options, gid }, undo);
  } catch (error) {
    // A swap device that nobody controls must not stay behind.
    await api.drain().catch(() => {});
    throw error;
  }
}

async function serve(
  api: Controller,
  policy: Policy,
  { gid, onError = () => {} }: StartOptions & { gid?: number },
  undo: Undo,
): Promise<AgentZip> {
  const { maxBodyKiB, socketMode } = policy.server;
  const socketPath = controlSocket(policy.paths.runtimeDir);
  const gate = new DrainGate(api);
  const started = await api.status();
  const server = await ControlServer.start(
    { api, gate },
    { socketPath, mode: parseInt(socketMode, 8), gid, maxBodyKiB, onInternalError: onError },
  );
  undo.add(() => server.close());
  const dashboard = await serveDashboard(api, policy, gid).catch((error: AgentZipError) => {
    // A page that can not be shown is no reason to leave a pager without its controller.
    onError(error);
    return null;
  });
  if (dashboard !== null) undo.add(() => dashboard.close());

  const lost = api.pagerGone.then(async () => {
    await gate.settled();
    throw new AgentZipError('AZ_PAGER_LOST', { pid: started.pager.pid, reason: 'it ended' });
  });
  const ended = Promise.race([gate.drained, lost]).finally(() => undo.run());
  // Who waits for it sees how it ended; that nobody does is no reason to crash.
  ended.catch(() => {});
  const stop = async (): Promise<void> => {
    await gate.drain();
    await ended;
  };
  return { policy, socketPath, api, dashboard, started, ended, stop };
}

function effectivePolicy({ policyFile, runtimeDir, stateDir }: StartOptions): Policy {
  const policy = loadPolicy(policyFile);
  if (runtimeDir !== undefined) policy.paths.runtimeDir = checkedRuntimeDir(runtimeDir);
  if (stateDir !== undefined) policy.paths.stateDir = resolve(stateDir);
  for (const path of Object.values(policy.paths)) {
    // Node 20 tries for ever to make a folder there.
    const kernel = /^\/(proc|sys)(?=\/|$)/.exec(path)?.[0];
    if (kernel === undefined) continue;
    throw new AgentZipError('AZ_RUNTIME_DIR', { path, reason: `no folder can be made in ${kernel}` });
  }
  return policy;
}
