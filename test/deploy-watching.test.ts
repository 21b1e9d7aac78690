import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { resourceOf } from '../src/otel/resource.js';
import { packageRoot } from '../src/paths.js';
import { prometheusText } from '../src/plugin/prometheus.js';
import { parsePolicy } from '../src/policy/load.js';
import { PlayedController } from './support/played-status.js';

/** The examples below deploy/ that watch a host, against what the service really serves. */

interface Target {
  expr: string;
  refId: string;
  legendFormat: string;
  datasource: { uid: string };
}
interface Panel {
  id: number;
  type: string;
  title: string;
  description: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: Target[];
  fieldConfig: { defaults: { unit: string } };
}
interface Dashboard {
  uid: string;
  title: string;
  schemaVersion: number;
  panels: Panel[];
  templating: { list: { name: string; type: string; query: string | { query: string } }[] };
}

const read = (path: string): string => readFileSync(`${packageRoot}/deploy/${path}`, 'utf8');

describe('the Grafana dashboard', () => {
  const dashboard = JSON.parse(read('grafana/agentzip.json')) as Dashboard;
  const targets = dashboard.panels.flatMap(({ targets: list }) => list);

  it('asks for nothing that the endpoint does not serve, by labels that it has', async () => {
    const text = prometheusText(await new PlayedController(2).status());
    const served = new Set([...text.matchAll(/^([a-z_]+)[{ ]/gm)].map(([, name]) => name));
    // `instance` and `job` are the scraper's.
    const labels = new Set(['instance', ...[...text.matchAll(/[{,]([a-z_]+)="/g)].map(([, name]) => name)]);
    const asked = targets.flatMap(({ expr }) => expr.match(/\bagentzip_[a-z_]+(?=\{)/g) ?? []);
    expect(asked.length).toBeGreaterThan(20);
    expect(asked.filter((name) => !served.has(name))).toEqual([]);
    for (const { expr, legendFormat } of targets) {
      const groups = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list.split(/, */));
      const selected = [...expr.matchAll(/[{,]([a-z_]+)(?:=~|!=|!~|=)"/g)].map(([, name]) => name);
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name);
      expect(
        [...groups, ...selected, ...shown].filter((name) => !labels.has(name)),
        expr,
      ).toEqual([]);
      // Without the selector a panel would sum up hosts that were not chosen.
      expect(expr.match(/agentzip_[a-z_]+\{instance=~"\$instance"/g)?.length).toBe(
        expr.match(/agentzip_[a-z_]+\{/g)?.length,
      );
      if (/\b(rate|increase)\(/.test(expr)) expect(expr).toMatch(/_total\{[^}]*\}\[/);
    }
    for (const { query } of dashboard.templating.list) {
      const metric = /label_values\((\w+),/.exec(typeof query === 'string' ? query : query.query)?.[1];
      if (metric !== undefined) expect(served).toContain(metric);
    }
  });

  it('has panels that do not overlap, with ids of their own, units and words', () => {
    const { panels } = dashboard;
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(36);
    expect(dashboard).toMatchObject({ uid: 'agentzip', title: 'AgentZip' });
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { gridPos, title, description, targets: list, fieldConfig, type } of panels) {
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
      expect([title, description, fieldConfig.defaults.unit].every((text) => text !== '')).toBe(true);
      expect(['stat', 'timeseries']).toContain(type);
      expect(new Set(list.map(({ refId }) => refId)).size).toBe(list.length);
    }
    const uids = new Set(targets.map(({ datasource }) => datasource.uid));
    expect([...uids]).toEqual(['${datasource}']);
    expect(dashboard.templating.list.map(({ name }) => name)).toEqual(['datasource', 'instance']);
  });
});

interface Collector {
  receivers: { otlp: { protocols: { http: { endpoint: string } } } };
  processors: Record<string, unknown>;
  exporters: { prometheus: { endpoint: string; add_metric_suffixes: boolean } } & Record<string, unknown>;
  service: { pipelines: Record<string, { receivers: string[]; processors: string[]; exporters: string[] }> };
}

describe('the collector of a fleet', () => {
  const collector = parse(read('otel/fleet-collector.yaml')) as Collector & {
    extensions: object;
    service: { extensions: string[] };
    receivers: { otlp: { protocols: { http: { auth: { authenticator: string }; tls: object } } } };
    processors: { resource: { attributes: object[] } };
  };

  it('takes both signals from outside with TLS and a token, and every part is defined and used', () => {
    const { pipelines, extensions } = collector.service;
    for (const kind of ['receivers', 'processors', 'exporters'] as const) {
      const used = new Set(Object.values(pipelines).flatMap((pipeline) => pipeline[kind]));
      expect([...used].sort(), kind).toEqual(Object.keys(collector[kind]).sort());
    }
    const { auth, tls, endpoint } = collector.receivers.otlp.protocols.http;
    expect(endpoint).toBe('0.0.0.0:4318');
    expect(Object.keys(tls)).toEqual(['cert_file', 'key_file']);
    expect(extensions).toEqual([auth.authenticator]);
    expect(Object.keys(collector.extensions)).toEqual(extensions);
  });

  it('names hosts by an attribute that is sent', () => {
    const [step] = collector.processors.resource.attributes as Record<string, string>[];
    const { attributes } = resourceOf({ version: '1.2.3', instance: 'i' });
    expect(Object.keys(attributes)).toEqual(expect.arrayContaining([step.key, step.from_attribute]));
  });
});

describe('the alerts', () => {
  interface Rule {
    alert: string;
    expr: string;
    labels: { severity: string };
    annotations: { summary: string };
  }
  const { groups } = parse(read('prometheus/agentzip.rules.yaml')) as { groups: { rules: Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);

  it('ask for metrics that are served, and are explained', async () => {
    const text = prometheusText(await new PlayedController(2).status());
    const served = new Set([...text.matchAll(/^([a-z_]+)[{ ]/gm)].map(([, name]) => name));
    const page = readFileSync(`${packageRoot}/docs/fleet.md`, 'utf8');
    expect(rules.length).toBeGreaterThan(4);
    for (const { alert, expr, labels, annotations } of rules) {
      const asked = expr.match(/\bagentzip_[a-z_]+/g) ?? [];
      expect(asked.length, alert).toBeGreaterThan(0);
      expect(
        asked.filter((name) => !served.has(name)),
        alert,
      ).toEqual([]);
      expect(['warning', 'critical']).toContain(labels.severity);
      expect(annotations.summary).toContain('$labels.instance');
      expect(page).toContain(`\`${alert}\``);
    }
  });
});

describe('the OpenTelemetry collector', () => {
  const collector = parse(read('otel/collector.yaml')) as Collector;
  const policy = parsePolicy(read('otel/agentzip.yaml'));

  it('listens where the policy beside it, and the one in the documentation, send to', () => {
    const { endpoint } = collector.receivers.otlp.protocols.http;
    expect(policy.otel.endpoint).toBe(`http://${endpoint}`);
    const page = readFileSync(`${packageRoot}/docs/policy.md`, 'utf8');
    const example = parsePolicy(/```yaml\n([^]*?)```/.exec(page)?.[1] ?? '');
    expect(example.otel.endpoint?.replace('localhost', '127.0.0.1')).toBe(policy.otel.endpoint);
    for (const address of [endpoint, collector.exporters.prometheus.endpoint])
      expect(address).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  it('takes both signals, and every part is defined and used', () => {
    const { pipelines } = collector.service;
    expect(Object.keys(pipelines)).toEqual(['traces', 'metrics']);
    for (const kind of ['receivers', 'processors', 'exporters'] as const) {
      const used = new Set(Object.values(pipelines).flatMap((pipeline) => pipeline[kind]));
      expect([...used].sort(), kind).toEqual(Object.keys(collector[kind]).sort());
    }
    // Memory is bounded before anything is kept, and batches come last.
    for (const { processors } of Object.values(pipelines)) {
      expect([processors[0], processors.at(-1)]).toEqual(['memory_limiter', 'batch']);
    }
    expect(collector.exporters.prometheus.add_metric_suffixes).toBe(true);
  });

  it('is in the package', () => {
    const { files } = JSON.parse(readFileSync(`${packageRoot}/package.json`, 'utf8')) as { files: string[] };
    expect(files).toContain('deploy');
    expect(existsSync(`${packageRoot}/deploy/otel/collector.yaml`)).toBe(true);
  });
});
