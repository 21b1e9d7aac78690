import { mkdirSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, type View } from './support/chromium.js';
import { playedDashboard } from './support/dashboard.js';

/** The page in headless Chromium. AGENTZIP_SCREENSHOTS names a folder for pictures to look at. */
let browser: Browser;
beforeAll(async () => {
  browser = await Browser.start();
});
afterAll(() => browser.stop());

type Played = Awaited<ReturnType<typeof playedDashboard>>;

async function withPage(count: number, view: View, test: (played: Played) => Promise<void>): Promise<void> {
  const played = await playedDashboard(count);
  try {
    await browser.look(view);
    await browser.open(played.dashboard.url);
    await expect.poll(() => shown('document.body.dataset.looks'), { timeout: 20_000 }).toBeTruthy();
    await test(played);
    expect(browser.complaints).toEqual([]);
    const foreign = browser.requests.filter((address) => !address.startsWith(played.dashboard.address));
    expect(foreign).toEqual([]);
  } finally {
    await played.dashboard.close();
  }
}

const shown = <T>(expression: string): Promise<T> => browser.evaluate<T>(expression);
const text = (selector: string): Promise<string> => shown(`document.querySelector('${selector}').innerText`);

async function keep(name: string): Promise<void> {
  const folder = process.env.AGENTZIP_SCREENSHOTS;
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/${name}.png`, await browser.screenshot());
}

/** Colors that the canvas of a chart shows, roughly, and how many of its pixels have them. */
const painted = (selector: string): Promise<Record<string, number>> =>
  shown(`(() => {
    const canvas = document.querySelector('${selector}');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = {};
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] < 250) continue;
      const name = '#' + [0, 1, 2].map((c) => data[i + c].toString(16).padStart(2, '0')).join('');
      seen[name] = (seen[name] ?? 0) + 1;
    }
    return seen;
  })()`);
const variable = (name: string): Promise<string> =>
  shown(`getComputedStyle(document.documentElement).getPropertyValue('--${name}').trim()`);

const VIEWS: [count: number, view: View][] = [
  [1, { width: 420, height: 900, scheme: 'dark' }],
  [16, { width: 1280, height: 1000, scheme: 'light' }],
  [16, { width: 1280, height: 1000, scheme: 'dark' }],
  [300, { width: 1280, height: 1000, scheme: 'light' }],
];

describe.each(VIEWS)('with %d sandboxes and %o', (count, view) => {
  it('shows memory, windows, encodings and prefetch, and nothing runs over the edge', async () => {
    await withPage(count, view, async ({ controller }) => {
      if (count === 300)
        controller.alerts = [{ code: 'AZ_STORE_FULL', message: 'it is full', remedy: 'raise it' }];
      expect(await shown('document.querySelectorAll("#boxes tbody tr").length')).toBe(count);
      expect(await shown('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      const chart = await painted('#memory canvas');
      for (const name of ['owned', 'pool', 'base', 'without']) {
        expect(chart[await variable(name)] ?? 0, name).toBeGreaterThan(100);
      }
      const accuracy = await painted('#prefetch canvas');
      expect(accuracy[await variable('used')] ?? 0).toBeGreaterThan(50);
      const windows = await painted('#boxes canvas');
      expect(windows[await variable('window')] ?? 0).toBeGreaterThan(100);
      expect(await text('#memory-legend')).toMatch(/Sandboxes own [\d.]+ [KMG]iB/);
      expect(await text('#encodings')).toMatch(/template\s+[\d,]+\s+27\.\d%/);
      if (count === 300)
        await expect.poll(() => text('#alerts'), { timeout: 10_000 }).toContain('AZ_STORE_FULL');
      else expect(await shown('document.getElementById("alerts").hidden')).toBe(true);
      await keep(`dashboard-${count}-${view.scheme}`);
    });
  });
});

const WIDE: View = { width: 1280, height: 1000, scheme: 'light' };

describe('the page', () => {
  it('goes on by itself, and says so when the service ends', async () => {
    await withPage(2, WIDE, async ({ controller, dashboard }) => {
      const looks = await shown<string>('document.body.dataset.looks');
      await expect.poll(() => shown('document.body.dataset.looks'), { timeout: 10_000 }).not.toBe(looks);
      controller.count = 5;
      await expect
        .poll(() => shown('document.querySelectorAll("#boxes tbody tr").length'), { timeout: 10_000 })
        .toBe(5);
      expect(await shown('location.search')).toBe('');
      await dashboard.close();
      await expect.poll(() => text('#state'), { timeout: 10_000 }).toContain('does not answer');
      browser.complaints.length = 0; // Chromium says that the connection was refused
    });
  });

  it('sorts, filters and changes the time shown, by keys alone', async () => {
    await withPage(16, WIDE, async () => {
      const ids = () =>
        shown<string[]>('[...document.querySelectorAll("#boxes tbody th")].map((cell) => cell.innerText)');
      expect((await ids()).slice(0, 3)).toEqual(['box-1', 'box-2', 'box-3']);
      await shown('document.querySelector("#boxes thead button").focus()');
      await browser.press('Enter');
      await expect.poll(async () => (await ids())[0]).toBe('box-16');
      expect(await shown('document.querySelector("#boxes thead th").ariaSort')).toBe('descending');
      await shown('document.getElementById("filter").focus()');
      for (const letter of 'node') await browser.press(letter);
      await expect.poll(async () => (await ids()).length).toBe(6);
      await shown('document.querySelector("#range input").focus()');
      await browser.press('ArrowRight');
      await expect.poll(() => shown('document.querySelector("#range input:checked").value')).toBe('900');
      await shown('document.getElementById("memory").focus()');
      await browser.press('ArrowLeft');
      await expect.poll(() => text('#memory-legend')).toMatch(/at \d\d:\d\d:\d\d/);
      await browser.press('Escape');
      await expect.poll(() => text('#memory-legend')).toMatch(/now$/);
    });
  });

  it('tells a screen reader what the pictures show, and has a name for every control', async () => {
    await withPage(3, WIDE, async () => {
      expect(await shown('document.getElementById("memory").ariaLabel')).toMatch(
        /Now .* with AgentZip.*without/,
      );
      expect(await shown('document.querySelector("#boxes canvas").ariaLabel')).toMatch(
        /^\d+ windows, \d+% of the time/,
      );
      const nameless = await browser.nameless();
      expect(nameless).toEqual([]);
      expect(await shown('document.documentElement.lang')).toBe('en');
    });
  });

  it.each(['light', 'dark'] as const)('has text that can be read in the %s scheme', async (scheme) => {
    await withPage(2, { ...WIDE, scheme }, async () => {
      for (const [ink, ground] of [
        ['text', 'card'],
        ['quiet', 'card'],
        ['quiet', 'page'],
        ['bad', 'page'],
      ]) {
        const ratio = contrast(await variable(ink), await variable(ground));
        expect(ratio, `${ink} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
      for (const hue of ['owned', 'pool', 'base', 'without', 'used', 'cover', 'window', 'open', 'late']) {
        // Of graphics WCAG asks for 3; the legend names each value, so that a little less is no loss.
        expect(contrast(await variable(hue), await variable('card')), hue).toBeGreaterThanOrEqual(2.2);
      }
    });
  });

  it('takes names for text, whatever is in them', async () => {
    await withPage(1, WIDE, async ({ controller }) => {
      const hostile = '<img src=x onerror=alert(1)>';
      controller.alerts = [{ code: 'AZ_X', message: hostile, remedy: hostile }];
      await expect.poll(() => text('#alerts'), { timeout: 10_000 }).toContain(hostile);
      expect(await shown('document.images.length')).toBe(0);
    });
  });
});

function luminance(hex: string): number {
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}
