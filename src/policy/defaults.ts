import type { PartialPolicy, Policy } from './policy.js';

/** The policy of a host that has no policy file. */
export const DEFAULT_POLICY: Readonly<Policy> = {
  version: 1,
  mode: 'proactive',
  paths: { runtimeDir: '/run/agentzip', stateDir: '/var/lib/agentzip' },
  pager: {
    frontEnd: 'auto',
    tier: 'direct',
    writebackMiB: 1024,
    deviceMiB: 16384,
    storeMiB: 8192,
    stagingMiB: 1024,
    workers: 2,
    standby: true,
    zswap: { poolPercent: 20, warmMs: 500 },
  },
  encoding: {
    cutoff: 0.9,
    level: 3,
    delta: true,
    siblings: true,
    duplicates: true,
    dictionary: true,
    clusters: true,
    candidates: 3,
  },
  pageout: { vectorKiB: 256, retries: 2, minWindowMs: 300, hotPhases: 0 },
  pressure: { availablePercent: 15, somePercent: 10, fullPercent: 2, minWindowMs: 100 },
  prefetch: { enabled: true, start: 'response_end', minUse: 0.2, maxWaste: 0.2, maxMiB: 128 },
  detect: {
    enabled: true,
    faults: 'reads',
    endpoints: [
      'api.anthropic.com',
      'api.openai.com',
      'generativelanguage.googleapis.com',
      'api.mistral.ai',
      'api.deepseek.com',
      'api.x.ai',
      'api.groq.com',
      'openrouter.ai',
    ],
    refreshMs: 60_000,
    requestBytes: 1024,
    silenceMs: 25,
    busyPercent: 25,
    streamEndMs: 2000,
    idleMs: 10_000,
    inbound: [],
    inboundExec: false,
    inboundQuietMs: 1000,
  },
  hosts: {
    intervalMs: 5000,
    capture: { enabled: true, templates: 16, maxMiB: 4096, unusedMs: 600_000 },
    bubblewrap: { enabled: false, mode: 'reclaim', template: null, tenant: null },
    e2b: { enabled: false, mode: 'reclaim', prePause: false },
    firecracker: { enabled: false, mode: 'reclaim', prePause: false, template: null, tenant: null },
    runsc: { enabled: false, mode: 'reclaim' },
    cgroup: {
      ...{ enabled: false, mode: 'reclaim' },
      ...{ include: [], exclude: [], pattern: null, template: null, tenant: null },
    },
    docker: {
      ...{ enabled: false, mode: 'reclaim', socket: '/var/run/docker.sock', include: [], exclude: [] },
      ...{ tenantLabel: 'agentzip.tenant', templateLabel: 'agentzip.template' },
    },
    containerd: {
      ...{ enabled: false, mode: 'reclaim', address: '/run/containerd/containerd.sock' },
      ...{ namespaces: ['k8s.io', 'default'], include: [], exclude: [] },
      tenantLabels: ['agentzip.tenant', 'io.kubernetes.pod.namespace'],
      templateLabels: ['agentzip.template', 'agents.x-k8s.io/sandbox-template-ref-hash'],
      calls: true,
    },
  },
  trust: { domain: 'tenant-template' },
  otel: { endpoint: null, headers: {}, file: null, metricsIntervalMs: 10_000, maxQueueSpans: 2048 },
  server: { maxBodyKiB: 256, socketMode: '0600', group: null },
  dashboard: { enabled: false, host: '127.0.0.1', port: 0 },
  log: { level: 'info' },
  overrides: [],
};

const isSection = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function lay(given: Record<string, unknown>, over: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(given)) {
    const known = over[key];
    if (isSection(value) && isSection(known)) lay(value, known);
    else over[key] = structuredClone(value);
  }
}

/** A policy of its own: the defaults, with what `given` says in their place, key by key. A list is replaced whole. */
export function withDefaults(given: PartialPolicy): Policy {
  const policy = structuredClone(DEFAULT_POLICY) as Policy;
  lay(given, policy as unknown as Record<string, unknown>);
  return policy;
}
