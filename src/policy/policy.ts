/** How AgentZip works on a host. policy.schema.json describes and bounds every key; units are in the names. */
export interface Policy {
  version: 1;
  mode: 'proactive' | 'pressure' | 'observe' | 'off';
  paths: { runtimeDir: string; stateDir: string };
  pager: {
    frontEnd: 'fuse-loop';
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
  trust: { domain: 'tenant-template' | 'tenant' | 'sandbox' };
  otel: {
    endpoint: string | null;
    headers: Record<string, string>;
    file: string | null;
    metricsIntervalMs: number;
    maxQueueSpans: number;
  };
  server: { maxBodyKiB: number; socketMode: string; group: string | null };
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

/** What a policy file holds: any part of a policy. */
export type PartialPolicy = {
  [Section in keyof Policy]?: Policy[Section] extends unknown[]
    ? Policy[Section]
    : Policy[Section] extends object
      ? Partial<Policy[Section]>
      : Policy[Section];
};
