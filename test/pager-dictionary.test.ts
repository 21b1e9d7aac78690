import { afterEach, expect, test } from 'vitest';
import { Hog, launchPager, stopPager, type TestPager } from './support/pager.js';

const CLAIMED = 20_000;

let pager: TestPager | undefined;
let hog: Hog | undefined;

afterEach(async () => {
  await hog?.stop();
  await stopPager(pager);
  hog = pager = undefined;
});

test(
  'a worker makes a dictionary of pages without a base, uses it, and puts together what rests',
  { timeout: 120_000 },
  async () => {
    pager = await launchPager();
    hog = await Hog.start(192, 64);
    const { client } = pager;
    const { sequence } = await client.request('sequence', {});
    const slots = Uint32Array.from({ length: CLAIMED }, (_, slot) => slot + 1);
    await client.request('openWindow', { owner: 'a' });
    const templatePages = new Uint32Array(CLAIMED).fill(0xffffffff);
    const claim = { owner: 'a', domain: 'd', pack: null, sequence, soleSince: null };
    await client.claim({ ...claim, slots, templatePages });
    const encodings = async () => (await client.request('status', {})).encodings;
    await expect.poll(async () => (await encodings()).dictionary, { timeout: 60_000 }).toBeGreaterThan(1000);
    const refined = await client.request('closeWindow', { owner: 'a' });
    expect(refined.encodings.dictionary).toBeGreaterThan(1000);
    // In the next window none of them has been written since the first began: what is like no other goes together.
    await client.request('openWindow', { owner: 'a' });
    await expect.poll(async () => (await encodings()).clustered, { timeout: 30_000 }).toBeGreaterThan(1000);
    await client.request('closeWindow', { owner: 'a' });
    expect(await hog.ask('verify')).toBe('ok');
  },
);
