import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { quantile } from '../src/bench/stats.js';
import { Family } from './support/family.js';
import { testRandom } from './support/seed.js';
import { Service, swappedBytes } from './support/service.js';
import { attribute, readSpans } from './support/spans.js';

const LIMIT = { timeout: 120_000 };
const MIB = 2 ** 20;
/** 64 MiB take some 300 ms to go out: time enough to be stopped in the midst of it. */
const PAGES = 16_384;
/** More give a figure for the 99th percentile; a run of 100 takes some 80 s. */
const WINDOWS = Number(process.env.AGENTZIP_TEST_WINDOWS ?? 24);

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
  const sentMs: number[] = [];
  for (let window = 0; window < WINDOWS; window++) {
    const fill = window === 0 ? `mix 0 ${PAGES}` : `rewrite ${window} 0 ${PAGES}`;
    expect(await family.ask('one', fill)).toBe('ok');
    const ended = await summary();
    await service.event('llm_request_sent', 'one');
    // Some in the midst of going out, whatever this machine takes for it, and some later.
    const enough = (random.below(1300) / 1000) * PAGES * 4096;
    for (let waited = 0; swappedBytes(pid) < enough && waited < 400; waited++) await sleep(1);
    sentMs.push(performance.timeOrigin + performance.now());
    await service.event('llm_first_token', 'one');
    // The call in hand may still be going on; the window is told of when that has ended.
    await expect.poll(summary).not.toBe(ended);
    const before = { out: swappedBytes(pid), refined: await refined('one') };
    await sleep(100);
    expect(swappedBytes(pid)).toBe(before.out);
    // Less when garbage was being freed as the window ended.
    expect(await refined('one')).toBeLessThanOrEqual(before.refined);
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
  const endedMs = windows.map(({ endTimeUnixNano }) => Number(BigInt(endTimeUnixNano) / 1000n) / 1000);
  const all = stops.map((ms, window) => ms + Math.max(0, endedMs[window] - sentMs[window]));
  const [stopped, since] = [stops, all].map((times) =>
    [0.5, 0.9, 0.99, 1].map((share) => quantile(times, share).toFixed(2)).join(' / '),
  );
  process.stdout.write(
    `first token: ${cut} of ${WINDOWS} windows of ${(PAGES * 4096) / MIB} MiB were cut short; work had stopped after ` +
      `${stopped} ms (p50 / p90 / p99 / most), ${since} ms from the sending of the event on\n`,
  );
});
