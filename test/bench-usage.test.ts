import { describe, expect, it } from 'vitest';
import { benchCommand } from '../src/cli/bench.js';
import { demoCommand } from '../src/cli/demo.js';

const parse = (...args: string[]): Promise<unknown> =>
  demoCommand().exitOverride().parseAsync(args, { from: 'user' });

describe('agentzip demo refuses', () => {
  it.each([
    ['--sandboxes', '0'],
    ['--sandboxes', '65'],
    ['--turns', '1.5'],
    ['--turns', 'many'],
    ['--seed', '-1'],
    ['--seed', '4294967296'],
    ['--runs', ''],
  ])('%s %s', async (option, value) => {
    await expect(parse(option, value)).rejects.toMatchObject({
      code: 'AZ_USAGE',
      message: expect.stringMatching(new RegExp(`^${option} .*whole number from`)),
      remedy: 'see agentzip demo --help',
    });
  });
});

it('agentzip demo --tier takes those that there are', async () => {
  await expect(parse('--tier', 'tape')).rejects.toThrow(/Allowed choices are direct, zswap, zram/);
});

describe('agentzip bench refuses', () => {
  it.each([
    ['--runs', '0'],
    ['--sandboxes', '257'],
    ['--turns', '-3'],
    ['--seed', '1e3'],
    ['--time-scale', '0'],
    ['--time-scale', '1,5'],
    ['--time-scale', '11'],
  ])('%s %s', async (option, value) => {
    const parsed = benchCommand().exitOverride().parseAsync([option, value], { from: 'user' });
    await expect(parsed).rejects.toMatchObject({
      code: 'AZ_USAGE',
      message: expect.stringMatching(new RegExp(`^${option} .*number from`)),
      remedy: 'see agentzip bench --help',
    });
  });
});
