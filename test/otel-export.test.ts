import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { AddressInfo, Socket } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createMetrics, type Reading } from '../src/otel/metrics.js';
import { ATTRIBUTES, METRICS } from '../src/otel/names.js';
import { instanceId, resourceOf } from '../src/otel/resource.js';
import { prometheusText } from '../src/plugin/prometheus.js';
import { PlayedController } from './support/played-status.js';
import { createTelemetry } from '../src/otel/telemetry.js';
import type { OtelSettings } from '../src/otel/settings.js';
import { sizeAttributes, WindowSpan } from '../src/otel/window.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';

interface OtlpValue {
  stringValue?: string;
  intValue?: number | string;
  doubleValue?: number;
}
interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: OtlpValue }[];
  links?: { traceId: string; spanId: string }[];
  events?: { name: string }[];
}
interface TraceBody {
  resourceSpans: {
    resource: { attributes: { key: string; value: OtlpValue }[] };
    scopeSpans: { spans: OtlpSpan[] }[];
  }[];
}
interface DataPoint {
  asInt?: number | string;
  asDouble?: number;
  count?: number | string;
  explicitBounds?: number[];
  bucketCounts?: (number | string)[];
  attributes: { key: string; value: OtlpValue }[];
}
interface MetricsBody {
  resourceMetrics: {
    scopeMetrics: {
      metrics: ({ name: string; unit: string } & Record<string, { dataPoints: DataPoint[] }>)[];
    }[];
  }[];
}

const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

/** An OTLP/HTTP endpoint that keeps what it gets. */
async function collector(answer: 'ok' | 'hang' | 'error' = 'ok') {
  const requests: { url: string; headers: IncomingHttpHeaders; body: string }[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      requests.push({ url: request.url ?? '', headers: request.headers, body });
      if (answer === 'hang') return;
      response.writeHead(answer === 'ok' ? 200 : 503, { 'content-type': 'application/json' }).end('{}');
    });
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanup.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return { requests, endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const settings = (given: Partial<OtelSettings>): OtelSettings => ({ ...DEFAULT_POLICY.otel, ...given });
const emitter = { version: '1.2.3', instance: 'test' };
const spansOf = (body: TraceBody): OtlpSpan[] =>
  body.resourceSpans.flatMap((resource) => resource.scopeSpans.flatMap((scope) => scope.spans));
const valueOf = (list: { key: string; value: OtlpValue }[], key: string): unknown => {
  const value = list.find((attribute) => attribute.key === key)?.value;
  return value?.stringValue ?? value?.doubleValue ?? (value?.intValue && Number(value.intValue));
};

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

/** One whole window, as the controller records it. */
function record(tracer: ReturnType<typeof createTelemetry>['tracer'], traceparent?: string): void {
  const window = WindowSpan.start(tracer, 'box-1', 'py', traceparent);
  window.child('pageout', { [ATTRIBUTES.pages]: 100, [ATTRIBUTES.pagesLeft]: 3 }).end();
  const refine = window.child('refine');
  refine.setAttributes(sizeAttributes(100, 409_600, 40_960));
  refine.end();
  window.event('template.drift', { [ATTRIBUTES.ratio]: 2.5 });
  window.end('first_token', { [ATTRIBUTES.pages]: 100 });
  window.end('shutdown');
}

describe('who reports', () => {
  it('is told by the environment where that says more', () => {
    vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', 'k8s.node.name=node-7,host.name=the-node');
    try {
      const { attributes } = resourceOf(emitter);
      expect(attributes).toMatchObject({
        ...{ 'service.name': 'agentzip', 'k8s.node.name': 'node-7', 'host.name': 'the-node' },
      });
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it('has an id of its own, the same after a restart, that does not show the machine’s', () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentzip-machine-'));
    cleanup.push(() => rmSync(folder, { recursive: true }));
    const idOf = (machine: string, runtimeDir: string): string => {
      writeFileSync(join(folder, 'machine-id'), `${machine}\n`);
      return instanceId(runtimeDir, join(folder, 'machine-id'));
    };
    const machine = '0af7651916cd43dd8448eb211c80319c';
    const id = idOf(machine, '/run/agentzip');
    // What Python's uuid.uuid5 makes of the same.
    expect(id).toBe('323e11de-0111-563a-afcd-ca08e08ddd2c');
    expect(idOf(machine, '/run/agentzip')).toBe(id);
    expect(idOf(machine, '/run/other')).not.toBe(id);
    expect(idOf(machine.replace('0', '1'), '/run/agentzip')).not.toBe(id);
    expect(instanceId('/run/agentzip', join(folder, 'none'))).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('a collector', () => {
  it('receives the window and its steps, with the host’s span as a link', async () => {
    const { requests, endpoint } = await collector();
    const telemetry = createTelemetry(settings({ endpoint, headers: { 'x-key': 'k' } }), emitter);
    record(telemetry.tracer, `00-${TRACE}-${SPAN}-01`);
    await telemetry.shutdown();

    const traces = requests.filter((request) => request.url === '/v1/traces');
    expect(traces).toHaveLength(1);
    expect(traces[0].headers['content-type']).toBe('application/json');
    expect(traces[0].headers['x-key']).toBe('k');
    const body = JSON.parse(traces[0].body) as TraceBody;
    const resource = body.resourceSpans[0].resource.attributes;
    expect(valueOf(resource, 'service.name')).toBe('agentzip');
    expect(valueOf(resource, 'service.version')).toBe('1.2.3');
    expect(valueOf(resource, 'service.instance.id')).toBe('test');
    expect(valueOf(resource, 'host.name')).toBe(hostname());
    expect(valueOf(resource, 'host.arch')).toMatch(/^(amd64|arm64)$/);
    expect(valueOf(resource, 'os.type')).toBe('linux');
    expect(valueOf(resource, 'process.pid')).toBe(process.pid);
    expect(valueOf(resource, 'telemetry.sdk.language')).toBe('nodejs');
    // What the status says of it, and so a scrape.
    expect(Object.fromEntries(resource.map(({ key }) => [key, String(valueOf(resource, key))]))).toEqual(
      telemetry.resource,
    );
    const scrape = prometheusText({
      ...(await new PlayedController(1).status()),
      resource: telemetry.resource,
    });
    expect(scrape).toMatch(/^target_info\{.*service_instance_id="test".*\} 1$/m);

    const spans = spansOf(body);
    expect(spans.map((span) => span.name).sort()).toEqual([
      'agentzip.pageout',
      'agentzip.refine',
      'agentzip.window',
    ]);
    const window = spans.find((span) => span.name === 'agentzip.window')!;
    expect(window.parentSpanId ?? '').toBe('');
    expect(window.traceId).not.toBe(TRACE);
    expect(window.links).toMatchObject([{ traceId: TRACE, spanId: SPAN }]);
    expect(window.events).toMatchObject([{ name: 'template.drift' }]);
    expect(valueOf(window.attributes, 'sandbox.id')).toBe('box-1');
    expect(valueOf(window.attributes, 'agentzip.template.id')).toBe('py');
    expect(valueOf(window.attributes, 'agentzip.window.end_reason')).toBe('first_token');
    for (const child of spans.filter((span) => span !== window)) {
      expect([child.traceId, child.parentSpanId]).toEqual([window.traceId, window.spanId]);
    }
    const refine = spans.find((span) => span.name === 'agentzip.refine')!;
    expect(valueOf(refine.attributes, 'agentzip.bytes.in')).toBe(409_600);
    expect(valueOf(refine.attributes, 'agentzip.bytes.out')).toBe(40_960);
    expect(valueOf(refine.attributes, 'agentzip.ratio')).toBe(10);
    expect(telemetry.droppedSpans()).toBe(0);
  });

  it.each([
    ['no traceparent at all', undefined],
    ['zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['upper case', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['version ff', `ff-${TRACE}-${SPAN}-01`],
    ['more fields in version 00', `00-${TRACE}-${SPAN}-01-x`],
    ['nonsense', 'hello'],
  ])('gets the window all the same with a bad traceparent: %s', async (_, traceparent) => {
    const { requests, endpoint } = await collector();
    const telemetry = createTelemetry(settings({ endpoint }), emitter);
    record(telemetry.tracer, traceparent);
    await telemetry.shutdown();
    const traces = requests.filter((request) => request.url === '/v1/traces');
    const window = spansOf(JSON.parse(traces[0].body)).find((span) => span.name === 'agentzip.window')!;
    expect(window.links ?? []).toEqual([]);
    const why = valueOf(window.attributes, 'agentzip.traceparent.invalid');
    if (traceparent === undefined) expect(why).toBeUndefined();
    else expect(why).toEqual(expect.any(String));
  });

  it('receives the metrics of the table, and no others', async () => {
    const { requests, endpoint } = await collector();
    const telemetry = createTelemetry(settings({ endpoint }), emitter);
    const reading: Reading = {
      ...{ sandboxes: 2, owned: 8192, swapped: 4096, stored: 400, pool: 5000, base: 100, foreign: 1 },
      ...{
        demandFaults: 3,
        prefetched: 20,
        wasted: 2,
        probeEvents: 50,
        probeDrops: 0,
        refused: 6,
        freed: 0,
        corrupt: 0,
        takeovers: 0,
      },
      ...{ droppedSpans: 0, pages: { delta: 7, raw: 1 } },
      templates: [
        { id: 'py', ratio: 9.5, accuracy: 0.9, coverage: 0.8, pages: { delta: 70 } },
        { id: 'new', ratio: null, accuracy: null, coverage: null, pages: {} },
      ],
    };
    const metrics = createMetrics(telemetry.meter, () => reading);
    metrics.windowEnded('first_token', 4000);
    metrics.windowStopped('first_token', 1.2);
    metrics.windowSkipped('too_dear');
    metrics.pageoutIncomplete('shared', 12);
    metrics.drifted('py', 'collision');
    await telemetry.shutdown();

    const bodies = requests.filter((request) => request.url === '/v1/metrics');
    expect(bodies.length).toBeGreaterThan(0);
    const body = JSON.parse(bodies.at(-1)!.body) as MetricsBody;
    const list = body.resourceMetrics[0].scopeMetrics[0].metrics;
    expect(list.map((metric) => metric.name).sort()).toEqual(
      Object.values(METRICS)
        .map((m) => m.name)
        .sort(),
    );
    const points = (name: string): DataPoint[] => {
      const metric = list.find((entry) => entry.name === name)!;
      return (metric.gauge ?? metric.sum ?? metric.histogram).dataPoints;
    };
    expect(list.find((metric) => metric.name === 'agentzip.memory.owned')?.unit).toBe('By');
    const number = (point: DataPoint) => Number(point.asInt ?? point.asDouble ?? point.count);
    expect(points('agentzip.memory.owned').map(number)).toEqual([8192]);
    expect(points('agentzip.window.duration').map(number)).toEqual([1]);
    expect(points('agentzip.pageout.incomplete').map(number)).toEqual([12]);
    expect(points('agentzip.windows.skipped').map(number)).toEqual([1]);
    // The aim of 2 ms is a boundary: what is above it can be counted.
    const [stopped] = points('agentzip.window.stop');
    expect(stopped.bucketCounts?.map(Number)[stopped.explicitBounds!.indexOf(1.5)]).toBe(1);
    expect(stopped.explicitBounds).toContain(2);
    const ofTemplates = (name: string) =>
      points(name).map((p) => [valueOf(p.attributes, 'agentzip.template.id'), number(p)]);
    expect(ofTemplates('agentzip.template.ratio')).toEqual([['py', 9.5]]);
    expect(ofTemplates('agentzip.template.prefetch.accuracy')).toEqual([['py', 0.9]]);
    expect(ofTemplates('agentzip.template.prefetch.coverage')).toEqual([['py', 0.8]]);
    expect(ofTemplates('agentzip.template.pages')).toEqual([['py', 70]]);
    expect(ofTemplates('agentzip.template.drifts')).toEqual([['py', 1]]);
    const encodings = points('agentzip.pages').map((p) => [
      valueOf(p.attributes, 'agentzip.encoding'),
      number(p),
    ]);
    expect(encodings).toEqual([
      ['delta', 7],
      ['raw', 1],
    ]);
  });
});

describe('a collector that is', () => {
  it.each([
    ['silent', () => collector('hang')],
    ['failing', () => collector('error')],
    ['gone', async () => ({ endpoint: 'http://127.0.0.1:9', requests: [] })],
  ])('%s costs bounded memory, blocks nothing, and does not hold up the shutdown', async (_, start) => {
    const { endpoint } = await start();
    const maxQueueSpans = 64;
    const telemetry = createTelemetry(settings({ endpoint, maxQueueSpans }), emitter);
    const windows = 5_000;
    const began = performance.now();
    for (let i = 0; i < windows; i++) WindowSpan.start(telemetry.tracer, `box-${i}`, null).end('budget');
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(telemetry.droppedSpans()).toBe(windows - maxQueueSpans);

    const stopping = performance.now();
    await telemetry.shutdown();
    expect(performance.now() - stopping).toBeLessThan(6_000);
    expect(telemetry.droppedSpans()).toBe(windows);
    WindowSpan.start(telemetry.tracer, 'late', null).end('shutdown');
    expect(telemetry.droppedSpans()).toBe(windows + 1);
  });
});

describe('a file', () => {
  it('gets one span a line, each a whole OTLP document', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentzip-otel-'));
    cleanup.push(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'spans.jsonl');
    const { requests, endpoint } = await collector();
    for (let run = 0; run < 2; run++) {
      const telemetry = createTelemetry(settings({ endpoint, file }), emitter);
      for (let i = 0; i < 200; i++) record(telemetry.tracer);
      await telemetry.shutdown();
      expect(telemetry.droppedSpans()).toBe(0);
    }
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    expect(lines).toHaveLength(2 * 200 * 3);
    const spans = lines.flatMap((line) => spansOf(JSON.parse(line) as TraceBody));
    expect(spans).toHaveLength(lines.length);
    expect(new Set(spans.map((span) => span.spanId)).size).toBe(lines.length);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const posted = requests.filter((request) => request.url === '/v1/traces').map((r) => JSON.parse(r.body));
    expect(posted.flatMap(spansOf)).toHaveLength(lines.length);
  });

  it('that can not be opened is an error at start', () => {
    const file = '/proc/no/such/spans.jsonl';
    expect(() => createTelemetry(settings({ file }), emitter)).toThrow(
      expect.objectContaining({ code: 'AZ_OTEL_FILE' }),
    );
  });

  it('on a full disk loses spans, counts them, and nothing else', async () => {
    const telemetry = createTelemetry(settings({ file: '/dev/full' }), emitter);
    record(telemetry.tracer);
    await telemetry.shutdown();
    expect(telemetry.droppedSpans()).toBe(3);
  });
});

describe('nowhere to send to', () => {
  it('records nothing', async () => {
    const telemetry = createTelemetry(settings({}), emitter);
    const window = WindowSpan.start(telemetry.tracer, 'box', null);
    expect(window.child('prefetch').isRecording()).toBe(false);
    window.end('exit');
    createMetrics(telemetry.meter, () => Promise.reject(new Error('never read')));
    await telemetry.shutdown();
    expect(telemetry.droppedSpans()).toBe(0);
  });
});
