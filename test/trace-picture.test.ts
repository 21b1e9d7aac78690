import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { mostTelling, parseTraces } from '../src/bench/report/trace.js';
import { scaleOf, waterfall } from '../src/bench/report/waterfall.js';
import { ATTRIBUTES } from '../src/otel/names.js';
import { createTelemetry } from '../src/otel/telemetry.js';
import { sizeAttributes, WindowSpan } from '../src/otel/window.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { packageRoot } from '../src/paths.js';

let folder: string;
beforeEach(() => (folder = mkdtempSync(`${tmpdir()}/agentzip-trace-`)));
afterEach(() => rmSync(folder, { recursive: true }));

const START = 1_700_000_000_000;

/** Spans as the product writes them: a window of 4 s with its steps, and one in which nothing was done. */
async function record(): Promise<string> {
  const file = `${folder}/spans`;
  const telemetry = createTelemetry({ ...DEFAULT_POLICY.otel, file }, { version: 'test', instance: 'test' });
  const { tracer } = telemetry;
  const at = (ms: number): number => START + ms;
  WindowSpan.start(tracer, 'idle', null, undefined, at(0)).end('shutdown', {}, at(9000));
  const window = WindowSpan.start(tracer, 'box <1>', 'py', undefined, at(0));
  window.event('request', {}, at(0));
  const pageout = window.child('pageout', { [ATTRIBUTES.pages]: 4096, [ATTRIBUTES.cpuMs]: 31.5 }, at(10));
  pageout.addEvent('turn', at(40));
  pageout.end(at(200));
  window.event('paged_out', {}, at(190));
  window.child('refine', sizeAttributes(4096, 16 << 20, 2 << 20), at(30)).end(at(400));
  window.event('first_token', {}, at(4000));
  window.child('prefetch', { [ATTRIBUTES.accuracy]: 0.75 }, at(6000)).end(at(6050));
  window.end('first_token', { [ATTRIBUTES.pages]: 4096 }, at(4000));
  await telemetry.shutdown();
  return file;
}

test('long stretches in which nothing happens are drawn short, the rest in proportion', () => {
  const { x, quiet } = scaleOf([0, 100, 200, 5000, 5100], 0, 1000);
  expect(quiet).toEqual([{ from: 200, to: 5000 }]);
  expect(x(0)).toBe(0);
  expect(x(5100)).toBeCloseTo(1000);
  const unit = x(100) - x(0);
  expect(x(200) - x(100)).toBeCloseTo(unit);
  expect(x(5100) - x(5000)).toBeCloseTo(unit);
  expect(x(5000) - x(200)).toBeLessThan(unit);
  expect(x(2600)).toBeCloseTo((x(200) + x(5000)) / 2);
});

test('moments at one time do not divide by nothing', () => {
  expect(scaleOf([7, 7], 10, 20).x(7)).toBe(10);
});

test('a window is drawn with its steps, its events and what they did', async () => {
  const traces = parseTraces(readFileSync(await record(), 'utf8'));
  expect(traces).toHaveLength(2);
  const picture = waterfall(mostTelling(traces)!);
  expect(picture).toContain('A waiting window of box &lt;1&gt;: 4.00 s, ended by first_token');
  for (const words of [
    '190 ms · turn came after 30.0 ms · 4\u202f096 pages · CPU 31.5 ms',
    '370 ms · 4\u202f096 pages · stored in 2.0 MiB · 8.0x',
    'of those before 75.0 % were seen used',
    'paged_out 190 ms',
    'first_token 4.00 s',
  ])
    expect(picture).toContain(words);
  expect(picture.match(/<rect class="(window|pageout|refine|prefetch)"/g)).toHaveLength(4);
  expect(picture).not.toMatch(/NaN|Infinity|undefined/);
});

test('the script draws the file, and says what is wrong with another', async () => {
  const draw = (spans: string) =>
    spawnSync(process.execPath, [`${packageRoot}/deploy/trace-picture.mjs`, spans, `${folder}/picture.svg`], {
      encoding: 'utf8',
    });
  expect(draw(await record())).toMatchObject({ status: 0, stderr: '' });
  expect(readFileSync(`${folder}/picture.svg`, 'utf8')).toMatch(/^<svg [^]*<\/svg>\n$/);
  writeFileSync(`${folder}/wrong`, '{"resourceSpans": []}\n');
  const { status, stderr } = draw(`${folder}/wrong`);
  expect(status).toBe(1);
  expect(stderr).toMatch(/^AZ_TRACE_INVALID: line 1 /);
});
