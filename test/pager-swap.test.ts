import { afterEach, expect, test } from 'vitest';
import { Hog, launchPager, stopPager, type TestPager } from './support/pager.js';

let pager: TestPager | undefined;
let hog: Hog | undefined;

afterEach(async () => {
  await hog?.stop();
  await stopPager(pager);
  hog = pager = undefined;
});

test('a process four times as large as its memory limit keeps every byte', { timeout: 120_000 }, async () => {
  pager = await launchPager();
  hog = await Hog.start(256, 64);
  expect(await hog.ask('verify')).toBe('ok');
  expect(await hog.ask('rewrite')).toBe('ok');
  expect(await hog.ask('verify')).toBe('ok');
  const status = await pager.client.request('status', {});
  // 256 MiB filled twice where 64 MiB fit: 192 MiB went out each time.
  expect(status.writes).toBeGreaterThan(2 * 192 * 256);
  expect(status.reads).toBeGreaterThan(192 * 256);
  expect(status.corruptPages).toBe(0);
});

test('pages of an ended process are freed in the store', { timeout: 120_000 }, async () => {
  pager = await launchPager();
  hog = await Hog.start(96, 32);
  const before = await pager.client.request('status', {});
  expect(before.usedSlots).toBeGreaterThan(48 * 256);
  await hog.stop();
  await expect
    .poll(async () => (await pager!.client.request('status', {})).usedSlots, { timeout: 20_000 })
    .toBeLessThan(before.usedSlots / 4);
});

test(
  'pages that nobody claims are made smaller, and come back as they were',
  { timeout: 120_000 },
  async () => {
    pager = await launchPager();
    hog = await Hog.start(96, 32);
    const staged = async () => {
      const { encodings, encodingBytes } = await pager!.client.request('status', {});
      return { pages: encodings.staged, bytes: encodingBytes.staged };
    };
    const { pages } = await staged();
    expect(pages).toBeGreaterThan(48 * 256);
    // A third of them compress by themselves.
    const now = async () => (await staged()).bytes;
    await expect.poll(now, { timeout: 60_000, interval: 500 }).toBeLessThan(0.75 * pages * 4096);
    expect(await hog.ask('verify')).toBe('ok');
    expect((await pager.client.request('status', {})).corruptPages).toBe(0);
  },
);
