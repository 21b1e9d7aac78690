import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { testRandom } from './support/seed.js';

const REQUESTS = 300_000;
/** Less than two bytes a request: one number that was kept of each would take four times as much. */
const MOST_GROWN = 512 * 1024;

test.each(['fuse-loop', 'nbd'])(
  'the request loop leaves nothing on the JS heap over %s',
  { timeout: 180_000 },
  async (name) => {
    const seed = testRandom('pager-heap').below(2 ** 31);
    const program = ['--expose-gc', 'test/fixtures/request-heap.mjs', String(REQUESTS), String(seed), name];
    const { stdout } = await promisify(execFile)(process.execPath, program, { timeout: 170_000 });
    const { requests, counted, grownBytes } = JSON.parse(stdout) as Record<string, number> & {
      counted: number[];
    };
    expect(requests).toBe(REQUESTS);
    // Reads, writes and discards were answered in earnest.
    for (const pages of counted) expect(pages).toBeGreaterThan(REQUESTS / 40);
    expect(grownBytes).toBeLessThan(MOST_GROWN);
  },
);
