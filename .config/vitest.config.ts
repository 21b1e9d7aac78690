import { readdirSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

const root = new URL('..', import.meta.url).pathname;

/** Tests that boot a guest do nothing to the host. That of memory pressure holds answers to a time, and so runs alone. */
const guests = readdirSync(`${root}/test`)
  .filter((name) => name.endsWith('.test.ts') && name !== 'pager-pressure.test.ts')
  .map((name) => `test/${name}`)
  .filter((path) => readFileSync(`${root}/${path}`, 'utf8').includes(`from './support/vm.js'`));

export default defineConfig({
  test: {
    root,
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['verbose'],
    projects: [
      // A guest takes one processor.
      {
        extends: true,
        test: { name: 'guest', include: guests, maxWorkers: 2, sequence: { groupOrder: 0 } },
      },
      // One file at a time: these own the host's swap, loop devices and probes while they run.
      {
        extends: true,
        test: {
          name: 'host',
          include: ['test/**/*.test.ts'],
          exclude: guests,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
