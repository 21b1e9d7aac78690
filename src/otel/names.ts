/** Every span, attribute and metric that AgentZip emits. docs/api.md and the manifest are checked against this table. */

/** One `window` span per waiting window, from the request to the first token; the others are its children. */
export const SPANS = {
  window: 'agentzip.window',
  pageout: 'agentzip.pageout',
  refine: 'agentzip.refine',
  prefetch: 'agentzip.prefetch',
} as const;
export type ChildSpan = Exclude<keyof typeof SPANS, 'window'>;

/** Events of a window's span: the phases it goes through, what ended it, and what is worth noting. */
export const SPAN_EVENTS = [
  ...(['request', 'paged_out', 'claimed', 'refined'] as const),
  ...(['first_token', 'tool_start', 'budget', 'exit', 'shutdown'] as const),
  ...(['failed', 'template.drift'] as const),
] as const;
export type EventName = (typeof SPAN_EVENTS)[number];

export const ATTRIBUTES = {
  sandbox: 'sandbox.id',
  template: 'agentzip.template.id',
  /** Pages the step handled. */
  pages: 'agentzip.pages',
  /** Pages the kernel kept although asked to page them out, or that were not restored. */
  pagesLeft: 'agentzip.pages.left',
  /** Uncompressed bytes that went in, stored bytes that came out, and their quotient. */
  bytesIn: 'agentzip.bytes.in',
  bytesOut: 'agentzip.bytes.out',
  ratio: 'agentzip.ratio',
  /** The quotient over a longer time. */
  usualRatio: 'agentzip.ratio.usual',
  cpuMs: 'agentzip.cpu.ms',
  endReason: 'agentzip.window.end_reason',
  expectedMs: 'agentzip.window.expected_ms',
  /** What was expected of it when it opened: half of those like it last longer. */
  predictedMs: 'agentzip.window.predicted_ms',
  /** From its end until the last system call or refine job for it had ended. */
  stopMs: 'agentzip.window.stop_ms',
  /** Nothing was done: what would have been. */
  dryRun: 'agentzip.dry_run',
  /** Waits of the sandbox before it that were left alone, since the last window. */
  skippedBefore: 'agentzip.window.skipped_before',
  model: 'agentzip.model',
  /** Of the pages put back for the tool phase before, those that were seen used. */
  accuracy: 'agentzip.prefetch.accuracy',
  /** Reason why the host's traceparent was ignored. */
  traceparentInvalid: 'agentzip.traceparent.invalid',
  reason: 'agentzip.reason',
  encoding: 'agentzip.encoding',
} as const;

/** Attributes of the resource: names of OpenTelemetry's semantic conventions. */
export const RESOURCE = {
  serviceName: 'service.name',
  serviceVersion: 'service.version',
  serviceInstance: 'service.instance.id',
  hostName: 'host.name',
  hostArch: 'host.arch',
  osType: 'os.type',
  pid: 'process.pid',
} as const;

export interface MetricName {
  name: string;
  /** UCUM unit. */
  unit:
    | 'By'
    | 'ms'
    | '1'
    | `{${'page' | 'window' | 'sandbox' | 'event' | 'fault' | 'span' | 'takeover' | 'drift'}}`;
  kind: 'counter' | 'gauge' | 'histogram';
  description: string;
}

export const METRICS = {
  sandboxes: {
    name: 'agentzip.sandboxes',
    unit: '{sandbox}',
    kind: 'gauge',
    description: 'Registered sandboxes.',
  },
  owned: {
    name: 'agentzip.memory.owned',
    unit: 'By',
    kind: 'gauge',
    description: 'Memory of sandboxes that is present, anonymous and exclusive.',
  },
  swapped: {
    name: 'agentzip.memory.swapped',
    unit: 'By',
    kind: 'gauge',
    description: 'Uncompressed size of what sandboxes have paged out.',
  },
  stored: {
    name: 'agentzip.memory.stored',
    unit: 'By',
    kind: 'gauge',
    description: 'What the store keeps for the pages of sandboxes.',
  },
  pool: {
    name: 'agentzip.memory.pool',
    unit: 'By',
    kind: 'gauge',
    description: 'Memory of the store (arena, tables and indexes), and of zswap or zram before it.',
  },
  base: {
    name: 'agentzip.memory.base',
    unit: 'By',
    kind: 'gauge',
    description: 'Resident pages of template packs.',
  },
  pages: {
    name: 'agentzip.pages',
    unit: '{page}',
    kind: 'gauge',
    description: 'Stored pages by encoding.',
  },
  templateRatio: {
    name: 'agentzip.template.ratio',
    unit: '1',
    kind: 'gauge',
    description: 'Uncompressed over stored bytes of the pages that were refined last, by template.',
  },
  templatePages: {
    name: 'agentzip.template.pages',
    unit: '{page}',
    kind: 'counter',
    description: 'Pages refined, by template and encoding.',
  },
  templateDrifts: {
    name: 'agentzip.template.drifts',
    unit: '{drift}',
    kind: 'counter',
    description: 'Times that pages of a template began to compress much worse than usual, by cause.',
  },
  prefetchAccuracy: {
    name: 'agentzip.template.prefetch.accuracy',
    unit: '1',
    kind: 'gauge',
    description: 'Pages used over pages put back ahead of their use, of late, by template.',
  },
  prefetchCoverage: {
    name: 'agentzip.template.prefetch.coverage',
    unit: '1',
    kind: 'gauge',
    description: 'Pages put back ahead of their use over all that were out and used, of late, by template.',
  },
  foreign: {
    name: 'agentzip.pages.foreign',
    unit: '{page}',
    kind: 'gauge',
    description: 'Stored pages that belong to no sandbox.',
  },
  windows: {
    name: 'agentzip.windows',
    unit: '{window}',
    kind: 'counter',
    description: 'Windows that have ended, by reason.',
  },
  windowDuration: {
    name: 'agentzip.window.duration',
    unit: 'ms',
    kind: 'histogram',
    description: 'Length of windows.',
  },
  windowStop: {
    name: 'agentzip.window.stop',
    unit: 'ms',
    kind: 'histogram',
    description: 'From the end of a window until nothing worked for it any more.',
  },
  windowsSkipped: {
    name: 'agentzip.windows.skipped',
    unit: '{window}',
    kind: 'counter',
    description: 'Waits that were left alone, by reason.',
  },
  pageoutIncomplete: {
    name: 'agentzip.pageout.incomplete',
    unit: '{page}',
    kind: 'counter',
    description: 'Pages that a window meant to page out and did not, by reason.',
  },
  demandFaults: {
    name: 'agentzip.faults.demand',
    unit: '{fault}',
    kind: 'counter',
    description: 'Faults of sandboxes on pages that were out.',
  },
  prefetched: {
    name: 'agentzip.prefetch.pages',
    unit: '{page}',
    kind: 'counter',
    description: 'Pages put back before they were asked for.',
  },
  wasted: {
    name: 'agentzip.prefetch.wasted',
    unit: '{page}',
    kind: 'counter',
    description: 'Prefetched pages that were not used, as samples tell.',
  },
  probeEvents: {
    name: 'agentzip.probe.events',
    unit: '{event}',
    kind: 'counter',
    description: 'Events taken from the probes.',
  },
  probeDrops: {
    name: 'agentzip.probe.dropped',
    unit: '{event}',
    kind: 'counter',
    description: 'Events the probes could not hand over.',
  },
  refused: {
    name: 'agentzip.pages.refused',
    unit: '{page}',
    kind: 'counter',
    description: 'Writes of pages that found the store full; the pages stay in memory.',
  },
  freed: {
    name: 'agentzip.pages.freed',
    unit: '{page}',
    kind: 'counter',
    description: 'Stored pages that nobody had any more, freed before the kernel told.',
  },
  corrupt: {
    name: 'agentzip.pages.corrupt',
    unit: '{page}',
    kind: 'counter',
    description: 'Stored pages that did not match their hash. Anything but 0 is an alarm.',
  },
  takeovers: {
    name: 'agentzip.pager.takeovers',
    unit: '{takeover}',
    kind: 'counter',
    description: 'Pagers that died and were followed by their standby. Anything but 0 asks why.',
  },
  droppedSpans: {
    name: 'agentzip.spans.dropped',
    unit: '{span}',
    kind: 'counter',
    description: 'Spans lost because their collector did not take them.',
  },
} as const satisfies Record<string, MetricName>;
