import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import type { Status } from '../src/controller/api.js';
import { METRICS } from '../src/otel/names.js';
import { packageRoot } from '../src/paths.js';
import { prometheusName, prometheusText } from '../src/plugin/prometheus.js';
import { PlayedController } from './support/played-status.js';

interface Family {
  name: string;
  type: string;
  help: string;
  samples: [name: string, labels: Record<string, string>, value: number][];
}

/** What Prometheus' own client for Python reads in a scrape. */
function parsed(text: string): Family[] {
  const words = [`${packageRoot}/test/fixtures/parse_metrics.py`];
  const { status, stdout, stderr } = spawnSync('/usr/bin/python3', words, { input: text, encoding: 'utf8' });
  if (status !== 0) throw new Error(`python3-prometheus-client is missing, or can not read it: ${stderr}`);
  return JSON.parse(stdout) as Family[];
}

async function status(change: (status: Status) => Status = (same) => same): Promise<Status> {
  return change(await new PlayedController(5).status());
}

const NASTY = 'a"b\\n\\c\nd{}=,é';

describe('a scrape', () => {
  it('is read by a parser as it was meant', async () => {
    const given = await status();
    const families = parsed(prometheusText(given));
    const owned = families.find(({ name }) => name === 'agentzip_memory_owned_bytes');
    expect(owned).toMatchObject({ type: 'gauge', help: METRICS.owned.description });
    expect(owned?.samples).toEqual(
      given.sandboxes.map(({ id, template, tenant, ownedBytes }) => [
        'agentzip_memory_owned_bytes',
        { sandbox_id: id, agentzip_template_id: template, agentzip_tenant_id: tenant },
        ownedBytes,
      ]),
    );
    const windows = families.find(({ name }) => name === 'agentzip_windows');
    expect(windows).toMatchObject({ type: 'counter' });
    expect(windows?.samples.map(([name, , value]) => [name, value])).toEqual(
      given.sandboxes.map((box) => ['agentzip_windows_total', box.windows]),
    );
  });

  it('escapes whatever a label holds, and leaves out what is not there', async () => {
    const given = await status((of) => ({
      ...of,
      sandboxes: [{ ...of.sandboxes[0], id: 'x', tenant: NASTY, template: null }],
    }));
    const owned = parsed(prometheusText(given)).find(({ name }) => name === 'agentzip_memory_owned_bytes');
    expect(owned?.samples[0][1]).toEqual({ sandbox_id: 'x', agentzip_tenant_id: NASTY });
  });

  it('has help and type of every family once, before its samples, and no series twice', async () => {
    const lines = prometheusText(await status())
      .trimEnd()
      .split('\n');
    const series = lines.filter((line) => !line.startsWith('#')).map((line) => line.replace(/ [^ ]+$/, ''));
    expect(new Set(series).size).toBe(series.length);
    const heads = lines.filter((line) => line.startsWith('# '));
    expect(new Set(heads).size).toBe(heads.length);
    let current = '';
    lines.forEach((line, i) => {
      const help = /^# HELP (\S+) /.exec(line)?.[1];
      if (help !== undefined) {
        expect(lines[i + 1]).toMatch(new RegExp(`^# TYPE ${help} (gauge|counter)$`));
        current = help;
      } else if (!line.startsWith('#')) expect(line.split(/[{ ]/)[0]).toBe(current);
    });
  });

  it('says whose it is as OpenTelemetry does: target_info', async () => {
    const given = await status();
    const target = parsed(prometheusText(given)).find(({ name }) => name === 'target_info');
    const labels = { service_name: 'agentzip', service_instance_id: 'i-1', k8s_pod_name: 'p' };
    expect(target?.samples).toEqual([['target_info', labels, 1]]);
  });

  it('serves metrics of the table alone', async () => {
    const known = new Set([...Object.values(METRICS).map(prometheusName), 'target_info', 'agentzip_info']);
    const names =
      prometheusText(await status())
        .match(/^# TYPE \S+/gm)
        ?.map((line) => line.slice(7)) ?? [];
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
  });
});

describe('names', () => {
  // Written down by hand, from OpenTelemetry's rules for Prometheus: a change of a rule must show.
  it.each([
    [METRICS.owned, 'agentzip_memory_owned_bytes'],
    [METRICS.pages, 'agentzip_pages'],
    [METRICS.windows, 'agentzip_windows_total'],
    [METRICS.windowDuration, 'agentzip_window_duration_milliseconds'],
    [METRICS.templateRatio, 'agentzip_template_ratio'],
    [METRICS.prefetchAccuracy, 'agentzip_template_prefetch_accuracy_ratio'],
    [METRICS.demandFaults, 'agentzip_faults_demand_total'],
  ])('%o is %s', (metric, name) => {
    expect(prometheusName(metric)).toBe(name);
  });

  it('are valid, distinct, and end as their kind asks', () => {
    const all = Object.values(METRICS).map((metric) => [metric.kind, prometheusName(metric)] as const);
    expect(new Set(all.map(([, name]) => name)).size).toBe(all.length);
    for (const [kind, name] of all) {
      expect(name).toMatch(/^agentzip(_[a-z0-9]+)+$/);
      expect(name.endsWith('_total'), name).toBe(kind === 'counter');
      expect(name).not.toMatch(/_(count|sum|bucket|info)$/);
    }
  });
});
