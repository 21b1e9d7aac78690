import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseHTML } from 'linkedom';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderReport } from '../src/bench/report/html.js';
import type { BenchResult } from '../src/bench/result.js';
import { exampleResult } from './support/bench-result.js';
import { Browser } from './support/chromium.js';
import { testRandom } from './support/seed.js';

const seed = testRandom('bench-report-page').below(1e6);
const example = exampleResult(seed);
/** A smaller one, for what does not depend on size; agentzip is its third system. */
const small: BenchResult = {
  ...example,
  systems: example.systems.filter(({ system }) => /^(none|agentzip|zram|agentzip-no-delta)$/.test(system)),
};
const HOSTILE = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;</style></svg>\${x}`;

interface Leaf {
  path: string;
  value: unknown;
}

function leaves(value: unknown, path = ''): Leaf[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }];
  return Object.entries(value).flatMap(([key, part]) => leaves(part, `${path}/${key}`));
}

/** A copy in which every string, and every name that a bench may choose, is replaced. */
function withStrings(value: unknown, replace: (text: string) => string, path = ''): unknown {
  if (typeof value === 'string') return replace(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((part) => withStrings(part, replace, path));
  const named = /\/(tools|definitions|encodings)$/.test(path) && !path.endsWith('cpuSeconds/tools');
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [
      named ? replace(key) : key,
      withStrings(part, replace, `${path}/${key}`),
    ]),
  );
}

const copy = (change: (result: BenchResult) => void): BenchResult => {
  const result = structuredClone(small);
  change(result);
  return result;
};

const squeezed = (text: string): string => text.replace(/\s+/g, ' ');
const pageOf = (result: BenchResult) => parseHTML(renderReport(result)).document;
const textOf = (result: BenchResult): string => squeezed(pageOf(result).body.textContent ?? '');

describe('the page of a bench', () => {
  const document = pageOf(example);
  const figures = [...document.querySelectorAll('data')].map((element) => ({
    value: Number(element.getAttribute('value')),
    text: (element.textContent ?? '').trim(),
  }));

  it('has every figure and every text of the results', () => {
    const values = new Set(figures.map(({ value }) => value));
    const text = squeezed(document.body.textContent ?? '');
    const wanted = leaves(example).filter(({ path }) => !path.includes('/timeline/'));
    expect(wanted.length).toBeGreaterThan(1000);
    const missing = wanted.filter(({ value }) =>
      typeof value === 'number' ? !values.has(value) : typeof value === 'string' && !text.includes(value),
    );
    expect(missing).toEqual([]);
  });

  it('shows each figure as it is, rounded to the digits shown', () => {
    const units: Record<string, number> = { MiB: 2 ** 20, GiB: 2 ** 30, '%': 0.01 };
    const milliseconds = new Set(example.systems.flatMap(({ wallMs }) => Object.values(wallMs)));
    const wrong = figures.filter(({ value, text }) => {
      const [, number, unit] = /^([\d\u202f.]+)\s?(\D*)$/.exec(text) ?? [];
      if (number === undefined) return true;
      const digits = number.split('.')[1]?.length ?? 0;
      // A range has the unit of its median, which stands before it.
      const factors = unit ? [units[unit] ?? 1] : [1, ...Object.values(units)];
      if (milliseconds.has(value)) factors.push(1000);
      const shown = Number(number.replaceAll('\u202f', ''));
      return !factors.some((factor) => Math.abs(value / factor - shown) <= 0.5001 * 10 ** -digits);
    });
    expect(wrong).toEqual([]);
  });

  it('says what a plot shows, with units and its numbers beneath', () => {
    const plots = [...document.querySelectorAll('figure')];
    expect(plots.map(({ id }) => id)).toEqual([
      ...['tradeoff', 'memory', 'counted', 'latency', 'ablations', 'encodings', 'cpu'],
    ]);
    for (const plot of plots) {
      expect(plot.querySelector('h2')?.textContent?.trim()).not.toBe('');
      expect(plot.querySelectorAll('svg.plot[aria-label]').length).toBeGreaterThan(0);
      expect(plot.querySelectorAll('details table td').length).toBeGreaterThan(0);
    }
    const tradeoff = squeezed(plots[0].textContent ?? '');
    for (const reported of ['8.7x', '1.403x', '88.55 %', '2.8x', '1.468x', '64.29 %', 'arXiv 2609.11294']) {
      expect(tradeoff).toContain(reported);
    }
  });

  it('carries the results it was made from', () => {
    const [, json] = document.querySelector('a[download]')?.getAttribute('href')?.split('base64,') ?? [];
    expect(JSON.parse(Buffer.from(json ?? '', 'base64').toString())).toEqual(example);
  });

  it('loads nothing and runs nothing', () => {
    expect(document.querySelectorAll('script, link, img, iframe, object, embed, image, use')).toHaveLength(0);
    for (const element of document.querySelectorAll('*')) {
      for (const { name, value } of element.attributes) {
        expect(name).not.toMatch(/^on/);
        if (/^(src|srcset|href|xlink:href|action|poster)$/.test(name)) expect(value).toMatch(/^data:/);
        if (!name.startsWith('xmlns')) expect(value).not.toMatch(/https?:|\/\//);
      }
    }
    expect(document.querySelector('style')?.textContent).not.toMatch(/url\(|@import/);
  });
});

describe('the page of a strange result', () => {
  it('shows hostile text as text', () => {
    let number = 0;
    const hostile = withStrings(small, (text) => `${text}${HOSTILE}${++number}`) as BenchResult;
    const document = pageOf(hostile);
    expect(document.querySelectorAll('script, img, [onerror]')).toHaveLength(0);
    expect(document.querySelectorAll('style')).toHaveLength(1);
    const text = squeezed(document.body.textContent ?? '');
    const lost = leaves(hostile).filter(({ value }) => typeof value === 'string' && !text.includes(value));
    expect(lost).toEqual([]);
  });

  it('puts first that results differ', () => {
    const text = textOf(copy(({ systems }) => (systems[2].resultsIdentical = false)));
    expect(text).toContain('Results differ');
    expect(text).not.toContain('Results identical.');
    expect(text.indexOf('Results differ')).toBeLessThan(text.indexOf('What was run'));
    expect(textOf(small)).toContain('Results identical.');
  });

  it('says more memory where a system costs more than it saves', () => {
    const change = ({ systems }: BenchResult): void => {
      systems[2].reductionTemplateFree = { median: 0.5, min: 0.4, max: 0.6 };
      systems[2].slowdownWall = { median: 1.25, min: 1.2, max: 1.3 };
    };
    expect(small.systems[2].system).toBe('agentzip');
    expect(pageOf(copy(change)).querySelector('h1')?.textContent).toBe(
      'AgentZip: 2.00x more memory at 1.25x the wall time',
    );
  });

  it('lists what disturbed a run and how it deviates', () => {
    const text = textOf(copy((result) => (result.disturbances = ['a compiler ran', 'so did a backup'])));
    expect(text).toMatch(/Disturbed\s*a compiler ran\s*so did a backup/);
    expect(text.replaceAll(' ', '')).toContain(`Deviations${example.deviations[0]}`.replaceAll(' ', ''));
    expect(textOf(small)).toContain('Undisturbed');
  });

  it.each([
    ['without a baseline', (r: BenchResult) => r.systems.shift()],
    ['of the baseline alone', (r: BenchResult) => r.systems.splice(1)],
    ['of one run', (r: BenchResult) => ((r.runs = 1), r.systems.forEach((s) => (s.runs = 1)))],
    [
      'without tool calls',
      (r: BenchResult) => {
        for (const system of r.systems) {
          const nothing = { p50: NaN, p95: NaN, p99: NaN };
          Object.assign(system, { toolMs: nothing, toolSlowdown: nothing, toolLatencyMs: [], tools: {} });
        }
      },
    ],
    [
      'without a sample',
      (r: BenchResult) => {
        for (const { timeline } of r.systems) for (const list of Object.values(timeline)) list.length = 0;
      },
    ],
  ])('is made %s', (_, change) => {
    for (const result of [copy(change), JSON.parse(JSON.stringify(copy(change))) as BenchResult]) {
      const page = renderReport(result);
      expect(/.{0,40}(NaN|Infinity|undefined|\[object).{0,40}/.exec(page)?.[0]).toBeUndefined();
      expect(parseHTML(page).document.querySelectorAll('.results td').length).toBeGreaterThan(20);
    }
  });
});

/** Pairs of texts of one visible chart that cover each other, and texts that stick out of their chart. */
const OVERLAPS = `[...document.querySelectorAll('svg.plot')].filter((svg) => svg.getClientRects().length).flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent.trim())
    .map((text) => [text.textContent, text.getBoundingClientRect()]);
  const apart = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) < 1 ||
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) < 2;
  return texts.flatMap(([text, box], i) => [
    ...(box.left < frame.left - 1 || box.right > frame.right + 1 ? [text + ' sticks out'] : []),
    ...texts.slice(i + 1).filter(([, other]) => !apart(box, other)).map(([other]) => text + ' covers ' + other),
  ]);
})`;

/** Colours of a PNG, and the share of its pixels that have the most frequent one; run in an empty page. */
const colours = (png: Buffer): string => `new Promise((resolve) => {
  const image = new Image();
  image.onload = () => {
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const counts = new Map();
    const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    resolve({ colours: counts.size, most: Math.max(...counts.values()) / pixels.length });
  };
  image.src = 'data:image/png;base64,${png.toString('base64')}';
})`;

const missing = spawnSync('chromium', ['--version'], { timeout: 20_000 }).status !== 0;

describe.skipIf(missing && !process.env.CI)('the page in Chromium', () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentzip-page-'));
  let browser: Browser;
  const open = async (result: BenchResult): Promise<void> => {
    const file = join(folder, 'page.html');
    writeFileSync(file, renderReport(result));
    await browser.open(pathToFileURL(file).href);
  };
  const shots: Buffer[] = [];

  beforeAll(async () => {
    browser = await Browser.start();
  });
  afterAll(async () => {
    await browser?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each([
    ['on a screen of 1000 px', { width: 1000, height: 800, scheme: 'light' as const }],
    ['in the dark', { width: 1000, height: 800, scheme: 'dark' as const }],
    ['on a phone', { width: 360, height: 740, scheme: 'light' as const }],
  ])('fits and is legible %s', async (_, view) => {
    await open(example);
    await browser.look(view);
    const width = await browser.evaluate<number>('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(view.width);
    expect(await browser.evaluate(OVERLAPS)).toEqual([]);
    expect(browser.complaints).toEqual([]);
    expect(browser.requests).toEqual([]);
    shots.push(await browser.screenshot());
  });

  it('is not blank, and not the same by day and night', async () => {
    await browser.open('about:blank');
    for (const shot of shots) {
      const seen = await browser.evaluate<{ colours: number; most: number }>(colours(shot));
      expect(seen.colours).toBeGreaterThan(100);
      expect(seen.most).toBeLessThan(0.9);
    }
    expect(shots).toHaveLength(3);
    expect(shots[0].equals(shots[1])).toBe(false);
  });

  it('runs nothing that a hostile result brings', async () => {
    await browser.evaluate('window.name = ""');
    await open(withStrings(small, (text) => text + HOSTILE.replaceAll('alert(', 'name=(')) as BenchResult);
    expect(await browser.evaluate('[window.name, document.images.length, document.scripts.length]')).toEqual([
      ...['', 0, 0],
    ]);
    expect(browser.complaints).toEqual([]);
    expect(browser.requests).toEqual([]);
  });

  it('prints on paper, light even in the dark', async () => {
    await open(example);
    const pdf = await browser.pdf('dark');
    expect(pdf.subarray(0, 5).toString()).toBe('%PDF-');
    const background = await browser.evaluate(
      'getComputedStyle(document.querySelector("figure")).backgroundColor',
    );
    expect(background).toBe('rgb(255, 255, 255)');
  });
});
