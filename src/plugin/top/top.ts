import { AgentZipError } from '../../errors.js';
import { AgentZipClient } from '../client.js';
import { checkedRuntimeDir, controlSocket } from '../runtime-files.js';
import { watch } from '../watch/watch.js';
import { snapshot } from './screen.js';

/** Where nobody says how wide the reader's screen is. */
const PLAIN_COLUMNS = 80;

export interface TopOptions {
  runtimeDir: string;
  intervalMs: number;
  once?: boolean;
  json?: boolean;
}

export interface TopStreams {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  env: NodeJS.ProcessEnv;
}

/**
 * `agentzip top`: live on a terminal, one look elsewhere. With `json` one line an interval, whatever is there; a look
 * that fails is a line too, as the service may come back. Errors of a single look: those of the client.
 */
export async function runTop(options: TopOptions, { stdin, stdout, env }: TopStreams): Promise<void> {
  const client = new AgentZipClient(controlSocket(checkedRuntimeDir(options.runtimeDir)));
  const source = { look: () => client.status(), intervalMs: options.intervalMs };
  try {
    if (options.json) return await printJsonLines(source, options.once === true, stdout);
    if (!options.once && stdin.isTTY && stdout.isTTY) {
      const { showTop } = await import('./live.js');
      return await showTop(source, { stdin, stdout, color: (env.NO_COLOR ?? '') === '' });
    }
    const columns = stdout.columns || Number(env.COLUMNS) || PLAIN_COLUMNS;
    for await (const { sample, problem } of watch({ ...source, signal: new AbortController().signal })) {
      if (problem !== null) throw problem;
      stdout.write(snapshot(sample, columns));
      return;
    }
  } finally {
    client.close();
  }
}

async function printJsonLines(
  source: { look: () => ReturnType<AgentZipClient['status']>; intervalMs: number },
  once: boolean,
  stdout: NodeJS.WriteStream,
): Promise<void> {
  for await (const { sample, problem } of watch({ ...source, signal: new AbortController().signal })) {
    if (once && problem !== null) throw problem;
    const code = problem instanceof AgentZipError ? problem.code : 'AZ_INTERNAL';
    const line = sample ?? { at: Date.now(), error: { code, message: problem?.message } };
    stdout.write(`${JSON.stringify(line)}\n`);
    if (once) return;
  }
}
