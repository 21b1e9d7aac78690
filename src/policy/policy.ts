/** Of every adapter for a platform: see src/hosts. */
export interface AdapterPolicy {
  enabled: boolean;
  mode: 'reclaim' | 'observe';
}

/** How AgentZip works on a host. policy.schema.json describes and bounds every key; units are in the names. */
export interface Policy {
  version: 1;
  mode: 'proactive' | 'pressure' | 'observe' | 'off';
  paths: { runtimeDir: string; stateDir: string };
  pager: {
    frontEnd: 'auto' | 'ublk' | 'nbd' | 'fuse-loop';
    tier: 'direct' | 'zswap' | 'zram';
    zswap: { poolPercent: number; warmMs: number };
    writebackMiB: number;
    deviceMiB: number;
    storeMiB: number;
    stagingMiB: number;
    workers: number;
    standby: boolean;
  };
  encoding: {
    cutoff: number;
    level: number;
    delta: boolean;
    siblings: boolean;
    duplicates: boolean;
    dictionary: boolean;
    clusters: boolean;
    candidates: number;
  };
  pageout: { vectorKiB: number; retries: number; minWindowMs: number; hotPhases: number };
  pressure: { availablePercent: number; somePercent: number; fullPercent: number; minWindowMs: number };
  prefetch: {
    enabled: boolean;
    start: 'response_end' | 'predicted' | 'first_token';
    minUse: number;
    maxWaste: number;
    maxMiB: number;
  };
  detect: {
    enabled: boolean;
    faults: 'reads' | 'probes';
    endpoints: string[];
    refreshMs: number;
    requestBytes: number;
    silenceMs: number;
    busyPercent: number;
    streamEndMs: number;
    idleMs: number;
    inbound: number[];
    inboundExec: boolean;
    inboundQuietMs: number;
  };
  hosts: {
    intervalMs: number;
    capture: { enabled: boolean; templates: number; maxMiB: number; unusedMs: number };
    bubblewrap: AdapterPolicy & { template: string | null; tenant: string | null };
    e2b: AdapterPolicy & { prePause: boolean };
    firecracker: AdapterPolicy & { prePause: boolean; template: string | null; tenant: string | null };
    runsc: AdapterPolicy;
    cgroup: AdapterPolicy & {
      include: string[];
      exclude: string[];
      pattern: string | null;
      template: string | null;
      tenant: string | null;
    };
    docker: AdapterPolicy & {
      socket: string;
      include: string[];
      exclude: string[];
      tenantLabel: string;
      templateLabel: string;
    };
    containerd: AdapterPolicy & {
      address: string;
      namespaces: string[];
      include: string[];
      exclude: string[];
      tenantLabels: string[];
      templateLabels: string[];
      calls: boolean;
    };
  };
  trust: { domain: 'tenant-template' | 'tenant' | 'sandbox' };
  otel: {
    endpoint: string | null;
    headers: Record<string, string>;
    file: string | null;
    metricsIntervalMs: number;
    maxQueueSpans: number;
  };
  server: { maxBodyKiB: number; socketMode: string; group: string | null };
  dashboard: { enabled: boolean; host: '127.0.0.1' | '::1'; port: number };
  log: { level: 'error' | 'warn' | 'info' | 'debug' };
  overrides: Override[];
}

/** Other settings for some sandboxes. Patterns are globs; every one given must match. */
export interface Override {
  match: { sandbox?: string; template?: string; tenant?: string };
  set: {
    mode?: Policy['mode'];
    encoding?: Partial<Omit<Policy['encoding'], 'level'>>;
    pageout?: Partial<Policy['pageout']>;
    prefetch?: Partial<Policy['prefetch']>;
    trust?: Partial<Policy['trust']>;
  };
  /** Where it stands, FILE:LINE; of a policy from a file. */
  at?: string;
}

type Partly<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [Key in keyof T]?: Partly<T[Key]> }
    : T;

/** What a policy file holds: any part of a policy. */
export type PartialPolicy = Partly<Policy>;
