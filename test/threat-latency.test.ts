import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service } from './support/service.js';

const PAGES = 2048;
const ROUNDS = 10;
const LIMIT = { timeout: 120_000 };

let service: Service;
let family: Family;
beforeEach(async () => {
  service = await Service.start({ prefetch: { enabled: false } });
  family = await Family.start();
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
});

/** A sandbox that has filled memory as told, and all of whose pages are out and refined. */
async function waiting(name: string, tenant: string, command: string): Promise<void> {
  const pid = await family.fork(name);
  expect(await family.ask(name, command)).toBe('ok');
  const template = tenant === 'acme' ? 'base' : undefined;
  await service.client.putSandbox(name, { template, tenant, pids: [pid] });
  await service.event('llm_request_sent', name);
  await service.out(name);
}

/**
 * Lets the tool read the pages back, several times; the shortest time of each page in microseconds, for the host's other
 * work only adds to it. Two lists: the pages of the first seed, and of the second.
 */
async function times(name: string): Promise<number[][]> {
  let shortest: number[][] | undefined;
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0) {
      await service.event('llm_request_sent', name);
      await service.out(name);
    }
    await service.event('tool_start', name);
    const measured: number[][] = JSON.parse(await family.ask(name, 'time 2'));
    shortest = measured.map((list, kind) => list.map((us, i) => Math.min(us, shortest?.[kind][i] ?? us)));
  }
  return shortest!;
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/**
 * How surely two samples differ in place: the standard score of the rank sum (Mann and Whitney 1947). Of samples of one
 * distribution it is beyond 4 once in 16 000 times.
 */
function rankScore(left: readonly number[], right: readonly number[]): number {
  const all = [...left.map((value) => ({ value, own: 1 })), ...right.map((value) => ({ value, own: 0 }))];
  all.sort((a, b) => a.value - b.value);
  const sum = all.reduce((total, { own }, i) => total + own * (i + 1), 0);
  const [n, m] = [left.length, right.length];
  return (sum - (n * (n + m + 1)) / 2) / Math.sqrt((n * m * (n + m + 1)) / 12);
}

test('the rank score sees a shift, and none where there is none', () => {
  const ramp = Array.from({ length: 200 }, (_, i) => (i * 37) % 200);
  expect(Math.abs(rankScore(ramp, ramp))).toBeLessThan(0.2);
  expect(
    rankScore(
      ramp.map((value) => value + 60),
      ramp,
    ),
  ).toBeGreaterThan(4);
});

test('a fault takes as long whether or not another tenant has the same page', LIMIT, async () => {
  await waiting('theirs', 'acme', `texts secret ${PAGES}`);
  await waiting('mine', 'globex', `texts secret guess ${PAGES}`);
  const [equal, unequal] = await times('mine');
  process.stdout.write(
    `medians: ${median(equal)} µs of pages another tenant has, ${median(unequal)} µs of others\n`,
  );
  expect(Math.abs(rankScore(equal, unequal))).toBeLessThan(4);
});

test(
  'inside a domain it tells what is near to the template, as docs/threat-model.md admits',
  LIMIT,
  async () => {
    await waiting('one', 'acme', `texts near guess ${PAGES}`);
    const { encodings } = await service.pagerStatus();
    expect(encodings.sparse).toBeGreaterThan(0.4 * PAGES);
    const [near, unlike] = await times('one');
    process.stdout.write(
      `medians: ${median(near)} µs of pages near to the template's, ${median(unlike)} µs of others\n`,
    );
    // A list of words and a template's page that is kept raw take less to decode than a page by itself.
    expect(rankScore(unlike, near)).toBeGreaterThan(4);
  },
);
