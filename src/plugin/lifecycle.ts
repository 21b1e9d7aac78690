import { resolve } from 'node:path';
import type { SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { ControllerApi, Status } from '../controller/api.js';
import { ADAPTER_NAMES } from '../controller/adapters.js';
import { createController, type Controller } from '../controller/controller.js';
import type { Events } from '../controller/events.js';
import { AgentZipError } from '../errors.js';
import { version } from '../paths.js';
import { instanceId } from '../otel/resource.js';
import { createTelemetry } from '../otel/telemetry.js';
import { loadPolicy, parsePolicy } from '../policy/load.js';
import type { PartialPolicy, Policy } from '../policy/policy.js';
import { serveDashboard, type Served } from './dashboard/serve.js';
import { quickChecks, requireHost } from './doctor.js';
import { DrainGate } from './drain-gate.js';
import { asAgentZipError } from './http-errors.js';
import { InstanceLock } from './lock.js';
import { checkedRuntimeDir, controlSocket } from './runtime-files.js';
import { ControlServer } from './server.js';
import { groupId } from './socket.js';
import { Undo } from './undo.js';

export interface AgentZipOptions {
  /** Any part of a policy, over the defaults; or a file, YAML or JSON. Not both. */
  policy?: PartialPolicy;
  policyFile?: string;
  /** Take the place of `paths` in the policy. */
  runtimeDir?: string;
  stateDir?: string;
  /** Adapters that are enabled, besides those that the policy enables: names of `hosts` in the policy. */
  hosts?: readonly string[];
  /** Gets every span, besides what `otel` of the policy names. */
  spanExporter?: SpanExporter;
  /** Told of errors that are no answer to anybody. */
  onError?: (error: AgentZipError) => void;
}

/** What has been started. */
export interface Running {
  readonly policy: Policy;
  readonly socketPath: string;
  readonly api: ControllerApi;
  readonly events: Events;
  /** The page for browsers; null when there is none. */
  readonly dashboard: Pick<Served, 'address' | 'file'> | null;
  readonly started: Status;
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

/** See createAgentZip. */
export async function startRunning(options: AgentZipOptions): Promise<Running> {
  const policy = effectivePolicy(options);
  requireHost(quickChecks(policy.pager.frontEnd));
  const undo = new Undo();
  try {
    return await start(policy, options, undo);
  } catch (error) {
    await undo.run().catch(() => {});
    throw error;
  }
}

async function start(policy: Policy, options: AgentZipOptions, undo: Undo): Promise<Running> {
  const { group } = policy.server;
  const gid = group === null ? undefined : groupId(group);
  const lock = InstanceLock.take(policy.paths.runtimeDir, gid);
  undo.add(() => lock.release());
  const emitter = { version, instance: instanceId(policy.paths.runtimeDir) };
  const telemetry = createTelemetry(policy.otel, emitter, options.spanExporter);
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
  { gid, onError = () => {} }: AgentZipOptions & { gid?: number },
  undo: Undo,
): Promise<Running> {
  const { maxBodyKiB, socketMode } = policy.server;
  const socketPath = controlSocket(policy.paths.runtimeDir);
  const gate = new DrainGate(api);
  const started = await api.status();
  const server = await ControlServer.start(
    { api, gate },
    { socketPath, mode: parseInt(socketMode, 8), gid, maxBodyKiB, onInternalError: onError },
  );
  undo.add(() => server.close());
  api.events.onFailure = (error) => onError(asAgentZipError(error));
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
  return { policy, socketPath, api, events: api.events, dashboard, started, ended, stop };
}

function givenPolicy({ policy, policyFile }: AgentZipOptions): Policy {
  if (policy === undefined) return loadPolicy(policyFile);
  if (policyFile === undefined) return parsePolicy(JSON.stringify(policy), 'the given policy');
  throw new AgentZipError('AZ_USAGE', { what: 'give policy or policyFile, not both', command: 'run' });
}

function effectivePolicy(options: AgentZipOptions): Policy {
  const { runtimeDir, stateDir, hosts = [] } = options;
  const policy = givenPolicy(options);
  enableHosts(policy, hosts);
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

function enableHosts(policy: Policy, names: readonly string[]): void {
  for (const name of names) {
    const adapter = ADAPTER_NAMES.find((known) => known === name);
    if (adapter === undefined) {
      const what = `--hosts: ${name || 'an empty name'} is no adapter; there are ${ADAPTER_NAMES.join(', ')}`;
      throw new AgentZipError('AZ_USAGE', { what, command: 'run' });
    }
    policy.hosts[adapter].enabled = true;
  }
  if (policy.hosts.cgroup.enabled && policy.hosts.cgroup.include.length === 0) {
    const what = '--hosts cgroup needs hosts.cgroup.include in the policy: which cgroups are sandboxes';
    throw new AgentZipError('AZ_USAGE', { what, command: 'run' });
  }
}
