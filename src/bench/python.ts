import { packageRoot } from '../paths.js';

const PROGRAM = `${packageRoot}/src/bench/programs/template.py`;
const PYTHON = '/usr/bin/python3';

/**
 * Command of the Python runtime with a module of programs/, which has `warm_up(args)` and `class Session(id, folder)`
 * with `call(tool, args)`.
 */
export const pythonCommand = (module: string, ...args: string[]): string[] => [
  PYTHON,
  '-B',
  '-s',
  PROGRAM,
  module,
  ...args,
];

/** One thread for linear algebra: the cores belong to the sandboxes together, and results must not depend on them. */
export const ONE_THREAD = { OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1', NUMEXPR_NUM_THREADS: '1' };
