import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { testRandom } from './support/seed.js';
import { Service, swappedBytes } from './support/service.js';
import { attribute, readSpans } from './support/spans.js';

const LIMIT = { timeout: 120_000 };
const MIB = 2 ** 20;
/** 64 MiB take some 300 ms to go out: time enough to be stopped in the midst of it. */
const PAGES = 16_384;
const WINDOWS = 24;

let service: Service;
let family: Family;
beforeEach(async () => {
  service = await Service.start();
  family = await Family.start();
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
});

/** Pages of the sandbox that are refined, as the pager counts them. */
async function refined(id: string): Promise<number> {
  const own = (await service.pagerStatus()).owners.find(({ owner }) => owner === id);
  return own === undefined ? 0 : own.slots - own.stagedSlots;
}

test('after the first token nothing more of a window goes out or is refined', LIMIT, async () => {
  const { client } = service;
  const random = testRandom('first token');
  const pid = await family.fork('one');
  await client.putSandbox('one', { pids: [pid] });
  const summary = async () => JSON.stringify((await client.getSandbox('one')).lastWindow);
  let cut = 0;
  for (let window = 0; window < WINDOWS; window++) {
    const fill = window === 0 ? `mix 0 ${PAGES}` : `rewrite ${window} 0 ${PAGES}`;
    expect(await family.ask('one', fill)).toBe('ok');
    const ended = await summary();
    await service.event('llm_request_sent', 'one');
    // Some in the midst of going out, whatever this machine takes for it, and some later.
    const enough = (random.below(1300) / 1000) * PAGES * 4096;
    for (let waited = 0; swappedBytes(pid) < enough && waited < 400; waited++) await sleep(1);
    await service.event('llm_first_token', 'one');
    // The call in hand may still be going on; the window is told of when that has ended.
    await expect.poll(summary).not.toBe(ended);
    const before = { out: swappedBytes(pid), refined: await refined('one') };
    await sleep(100);
    expect({ out: swappedBytes(pid), refined: await refined('one') }).toEqual(before);
    if (before.out > 0 && before.out < 0.9 * PAGES * 4096) cut++;
    await client.wake('one');
  }
  expect(await family.ask('one', 'verify')).toBe('ok');
  // Else the test would say nothing.
  expect(cut).toBeGreaterThan(WINDOWS / 8);
  await service.drain();
  await service.ended();

  const windows = readSpans(`${service.folder}/spans`).filter(({ name }) => name === 'agentzip.window');
  expect(windows).toHaveLength(WINDOWS);
  const stops = windows.map((span) => Number(attribute(span, 'agentzip.window.stop_ms')));
  expect(stops.every((ms) => ms >= 0)).toBe(true);
  const [median, last] = [0.5, 1].map(
    (share) => stops.toSorted((a, b) => a - b)[Math.ceil(share * WINDOWS) - 1],
  );
  process.stdout.write(
    `first token: ${cut} of ${WINDOWS} windows of ${(PAGES * 4096) / MIB} MiB were cut short; work had stopped after ` +
      `${median.toFixed(2)} ms (median), ${last.toFixed(2)} ms at most\n`,
  );
});
