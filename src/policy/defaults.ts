import type { PartialPolicy, Policy } from './policy.js';

/** The policy of a host that has no policy file. */
export const DEFAULT_POLICY: Readonly<Policy> = {
  version: 1,
  mode: 'proactive',
  paths: { runtimeDir: '/run/agentzip', stateDir: '/var/lib/agentzip' },
  pager: {
    frontEnd: 'fuse-loop',
    deviceMiB: 16384,
    storeMiB: 8192,
    stagingMiB: 1024,
    workers: 2,
    standby: true,
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
  trust: { domain: 'tenant-template' },
  otel: { endpoint: null, headers: {}, file: null, metricsIntervalMs: 10_000, maxQueueSpans: 2048 },
  server: { maxBodyKiB: 256, socketMode: '0600', group: null },
  log: { level: 'info' },
  overrides: [],
};

/** A policy of its own: the defaults, with what `given` says in their place. */
export function withDefaults(given: PartialPolicy): Policy {
  const policy = structuredClone(DEFAULT_POLICY) as Policy;
  for (const [section, value] of Object.entries(given)) {
    const known = policy[section as keyof Policy];
    const isSection = typeof known === 'object' && !Array.isArray(known);
    const merged = isSection ? { ...known, ...(value as object) } : value;
    Object.assign(policy, { [section]: merged });
  }
  return policy;
}
