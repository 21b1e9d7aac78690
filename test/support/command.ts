import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.js';

/** The built command; `npm test` builds it first. */
export const COMMAND = join(packageRoot, 'dist/cli/main.js');
const TIMEOUT_MS = 30_000;

export interface Outcome {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `agentzip` to its end. `as` is a program with arguments that runs it in its turn, such as setpriv. */
export async function agentzip(words: readonly string[], as: readonly string[] = []): Promise<Outcome> {
  const [program, ...args] = [...as, process.execPath, COMMAND, ...words];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: TIMEOUT_MS });
  const outcome: Outcome = { code: null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text) => (outcome.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (outcome.stderr += text));
  [outcome.code] = await once(child, 'close');
  return outcome;
}

/** Leaves a Unix socket that nobody listens on, as a killed service does. */
export function leaveDeadSocket(path: string): void {
  const listening = "() => process.kill(process.pid, 'SIGKILL')";
  const script = `require('net').createServer().listen(${JSON.stringify(path)}, ${listening})`;
  spawnSync(process.execPath, ['-e', script], { timeout: TIMEOUT_MS });
}
