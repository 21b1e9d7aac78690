import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const LIMIT_MS = 400_000;
const guest = prepareGuest();

test.skipIf(guest === null)(
  'the service goes on when its pager is killed in a window',
  { timeout: LIMIT_MS + 10_000 },
  async () => {
    const script = `${process.execPath} ${packageRoot}/test/fixtures/service-takeover.mjs`;
    const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: LIMIT_MS });
    const said = lines.join('\n');
    expect(status, said).toBe(0);
    const { takeovers, checked } = JSON.parse(lines.find((line) => line.startsWith('{')) ?? '{}');
    expect(takeovers).toBe(1);
    expect(JSON.parse(checked)).toEqual({ rounds: 0, pages: 2048 });
  },
);
