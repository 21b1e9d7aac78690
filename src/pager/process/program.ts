import { packageRoot } from '../../paths.js';

/**
 * No thread but ours: V8's own collect garbage and compile for all others, which wait for them. When memory is short they wait
 * for a page, and so for the data loop, which would wait for them. Young generations stay small, and are there from the start.
 */
const V8_FLAGS = ['--single-threaded', '--min-semi-space-size=1', '--max-semi-space-size=1', '--expose-gc'];

/** The command line of a pager or its standby, the program first. */
export const pagerCommand = (...words: string[]): string[] => [
  process.execPath,
  ...V8_FLAGS,
  `${packageRoot}/dist/pager/main.js`,
  ...words,
];
