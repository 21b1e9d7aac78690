import { CommanderError } from 'commander';
import { AgentZipError } from '../errors.js';

/** Facts go to standard output, everything else to standard error. */
export const print = (text: string): void =>
  void process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
export const printJson = (value: unknown): void => print(JSON.stringify(value, null, 2));
export const warn = (text: string): void => void process.stderr.write(`agentzip: ${text}\n`);

export const FAILED = 1;
export const WRONG_USAGE = 2;

/** Says what went wrong and what to do about it. */
export function printError(error: unknown): void {
  if (error instanceof AgentZipError) {
    warn(`${error.code}: ${error.message}`);
    // AZ_USAGE of no command in particular leaves a gap where its name would stand.
    process.stderr.write(`remedy: ${error.remedy.replace(/ {2,}/g, ' ')}\n`);
  } else {
    warn(`AZ_INTERNAL: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}

/** Exit code for an error; prints it, unless it is a help or version that was asked for. */
export function exitCodeOf(error: unknown, command: string): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    // Help in place of a command that was not given is on the screen already.
    if (error.code !== 'commander.help') {
      const what = error.message.replace(/^error: /, '');
      printError(new AgentZipError('AZ_USAGE', { what, command }));
    }
    return WRONG_USAGE;
  }
  printError(error);
  return error instanceof AgentZipError && error.code === 'AZ_USAGE' ? WRONG_USAGE : FAILED;
}
