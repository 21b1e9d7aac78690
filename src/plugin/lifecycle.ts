import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { ControllerApi, Status } from '../controller/api.js';
import { ADAPTER_NAMES } from '../controller/sandboxes/adapters.js';
import type { Controller } from '../controller/controller.js';
import { createController } from '../controller/start.js';
import type { Events } from '../controller/events.js';
import { Policies } from '../controller/policies.js';
import { AgentZipError } from '../errors.js';
import { version } from '../paths.js';
import { instanceId } from '../otel/resource.js';
import { createTelemetry } from '../otel/telemetry.js';
import { loadPolicy, parsePolicy } from '../policy/load.js';
import { LivePolicy } from '../policy/live.js';
import type { PartialPolicy, Policy } from '../policy/policy.js';
import { FileWatch } from '../policy/watch.js';
import { serveDashboard, type Served } from './dashboard/serve.js';
import { quickChecks, requireHost } from './doctor.js';
import { privileges } from './doctor/privileges.js';
import { readText } from './doctor/requirement.js';
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
  /** Finds out what sandboxes do and says what would be done, and does nothing: no pager, no swap device, no page-out. */
  dryRun?: boolean;
  /** Gets every span, besides what `otel` of the policy names. */
  spanExporter?: SpanExporter;
  /** Told of errors that are no answer to anybody. */
  onError?: (error: AgentZipError) => void;
}

/** What has been started. */
export interface Running {
  readonly policy: Policy;
  /** Reads the policy's file anew. Never throws: the events and the status tell what came of it. */
  reload(): void;
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
  const { policyFile } = options;
  const live = new LivePolicy(
    effectivePolicy(options),
    policyFile === undefined ? null : resolve(policyFile),
  );
  requireHost(
    options.dryRun ? privileges(readText, process.getuid?.() ?? -1) : quickChecks(live.current.pager),
  );
  const undo = new Undo();
  try {
    return await start(live, options, undo);
  } catch (error) {
    await undo.run().catch(() => {});
    throw error;
  }
}

async function start(live: LivePolicy, options: AgentZipOptions, undo: Undo): Promise<Running> {
  const policy = live.current;
  const { group } = policy.server;
  const gid = group === null ? undefined : groupId(group);
  const lock = InstanceLock.take(policy.paths.runtimeDir, gid);
  undo.add(() => lock.release());
  const emitter = { version, instance: instanceId(policy.paths.runtimeDir) };
  const telemetry = createTelemetry(policy.otel, emitter, options.spanExporter);
  undo.add(() => telemetry.shutdown());
  live.prepare = ({ otel }) => {
    if (!isDeepStrictEqual(otel, policy.otel)) telemetry.renew(otel);
  };
  const api = await createController(new Policies(live, options.dryRun), telemetry);
  undo.add(() => api.close());
  try {
    return await serve(api, live, { ...options, gid }, undo);
  } catch (error) {
    // A swap device that nobody controls must not stay behind.
    await api.drain().catch(() => {});
    throw error;
  }
}

async function serve(
  api: Controller,
  live: LivePolicy,
  { gid, onError = () => {}, ...options }: AgentZipOptions & { gid?: number },
  undo: Undo,
): Promise<Running> {
  const policy = live.current;
  const socketPath = controlSocket(policy.paths.runtimeDir);
  const gate = new DrainGate(api);
  const started = await api.status();
  const server = await ControlServer.start(
    { api, gate },
    {
      ...{ socketPath, mode: parseInt(policy.server.socketMode, 8), gid, onInternalError: onError },
      get maxBodyKiB() {
        return policy.server.maxBodyKiB;
      },
    },
  );
  undo.add(() => server.close());
  api.events.onFailure = (error) => onError(asAgentZipError(error));
  const dashboard = await serveDashboard(api, policy, gid).catch((error: AgentZipError) => {
    // A page that can not be shown is no reason to leave a pager without its controller.
    onError(error);
    return null;
  });
  if (dashboard !== null) undo.add(() => dashboard.close());
  const reload = following(live, options, api.events, undo);

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
  return { policy, reload, socketPath, api, events: api.events, dashboard, started, ended, stop };
}

/** Reads the policy anew when its file changes; returns what does so at once. */
function following(live: LivePolicy, options: AgentZipOptions, events: Events, undo: Undo): () => void {
  const reload = (): void => {
    try {
      const { changed, kept } = live.reload(() => effectivePolicy(options));
      if (changed.length + kept.length > 0) events.tell('policyChanged', { changed, kept });
    } catch (error) {
      events.tell('policyRefused', { error: asAgentZipError(error) });
    }
  };
  if (live.file === null) return reload;
  const watch = new FileWatch(live.file, reload);
  undo.add(() => watch.close());
  return () => {
    watch.seen();
    reload();
  };
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
