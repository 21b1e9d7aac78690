import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import type { RefineResult } from '../src/pager/protocol.js';
import { prometheusText } from '../src/plugin/prometheus.js';
import { readingOf } from '../src/controller/status.js';
import { Bench, until } from './support/controller.js';
import { NO_REFINING } from './support/scripted-pager.js';

let bench: Bench | undefined;
afterEach(() => bench?.stop());

/** A window of so many pages, of which so many are without a base where the template has one. */
const result = (pages: number, misfits: number): RefineResult => ({
  ...NO_REFINING,
  ...{ pages, bytesIn: 4096 * pages, bytesOut: 200 * (pages - misfits) + 1600 * misfits, misfits },
  deltas: { pages: pages - misfits, bytes: 200 * (pages - misfits) },
  encodings: { ...NO_REFINING.encodings, delta: pages - misfits, zstd: misfits },
});

test('pages that no longer match their template are told of: alert, span event, metrics', async () => {
  const results = [...Array(6).fill(result(8000, 400)), ...Array(3).fill(result(8000, 6000))];
  const windows = results.length;
  bench = await Bench.start({ closeWindow: () => results.shift() ?? NO_REFINING });
  const { controller } = bench;
  const python = await bench.python();
  await controller.putTemplate('python', { pid: python.pid, tenant: 'acme' });
  await controller.putSandbox('one', { pids: [python.pid], template: 'python', tenant: 'acme' });
  expect((await controller.status()).templates[0].compression).toMatchObject({ pages: 0, drift: null });
  for (let window = 1; window <= windows; window++) {
    controller.event('one', { type: 'llm_request_sent', expectedMs: 1000 });
    await until(async () => (await controller.getSandbox('one')).windows === window);
    controller.event('one', { type: 'llm_first_token' });
    await until(() => results.length === windows - window);
    await until(async () => (await controller.getSandbox('one')).lastWindow?.refinedPages !== undefined);
  }
  await until(async () => (await controller.status()).alerts.length > 0);
  const status = await controller.status();
  expect(status.templates[0].compression).toMatchObject({
    pages: 8000 * windows,
    drift: { cause: 'template_mismatch' },
  });
  expect(status.alerts).toMatchObject([
    { code: 'AZ_RATIO_DRIFT', message: expect.stringContaining('template python compress') },
  ]);
  expect(status.alerts[0].message).toContain('template mismatch');
  const { recentRatio } = status.templates[0].compression;
  expect(readingOf(status, 0).templates).toEqual([
    {
      id: 'python',
      accuracy: null,
      coverage: null,
      ratio: recentRatio,
      pages: expect.objectContaining({ delta: 51_600, zstd: 20_400 }),
    },
  ]);
  expect(prometheusText(status)).toContain(
    `agentzip_template_ratio{agentzip_template_id="python"} ${recentRatio}`,
  );
  expect(prometheusText(status)).toContain(
    'agentzip_template_pages_total{agentzip_template_id="python",agentzip_encoding="zstd"} 20400',
  );
  await bench.close();
  const spans = readFileSync(`${bench.folder}/spans`, 'utf8');
  expect(spans).toContain('template_mismatch');
  expect(spans.match(/"name":"template.drift"/g)).toHaveLength(1);
});
