import { AgentZipError } from '../errors.js';
import type { Screen } from './live.js';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs `work` with a signal that is aborted by Ctrl-C, SIGTERM, SIGHUP or the loss of the output; its reason is
 * AZ_INTERRUPTED. None of them ends the process while `work` cleans up, however often they come.
 */
export async function interruptible<T>(
  screen: Screen,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stop = (by: string): void => {
    if (controller.signal.aborted) {
      screen.write('still cleaning up, please wait\n');
      return;
    }
    screen.write(`\nstopped by ${by}: cleaning up\n`);
    controller.abort(new AgentZipError('AZ_INTERRUPTED', { by }));
  };
  const onSignal = (signal: NodeJS.Signals): void => stop(signal);
  const onLost = (): void => {
    if (!controller.signal.aborted)
      controller.abort(new AgentZipError('AZ_INTERRUPTED', { by: 'a closed output' }));
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const giveBack = [process.stdout, process.stderr].map((stream) => takeErrors(stream, onLost));
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal);
    for (const undo of giveBack) undo();
  }
}

/**
 * Makes `listener` the only one of a stream's errors, and returns what undoes it. Whoever else listens, or nobody, may
 * end the process when a pipe closes (`| head`): in the middle of a demo that would leave everything behind.
 */
function takeErrors(stream: NodeJS.WriteStream, listener: () => void): () => void {
  const others = stream.listeners('error') as (() => void)[];
  stream.removeAllListeners('error').on('error', listener);
  return () => {
    stream.off('error', listener);
    for (const other of others) stream.on('error', other);
  };
}
