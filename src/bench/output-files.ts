import { closeSync, openSync } from 'node:fs';
import { resolve } from 'node:path';
import { AgentZipError, explain } from '../errors.js';

/**
 * Empties a file that will be written at the end, so that a path that can not be written is found before the runs, and
 * returns its absolute path; AZ_USAGE then. `option` is the one that named it, `command` the command.
 */
export function emptyFile(option: string, path: string | undefined, command: string): string | undefined {
  if (path === undefined) return undefined;
  try {
    closeSync(openSync(path, 'w'));
  } catch (error) {
    const what = `${option} ${path} can not be written: ${explain(error)}`;
    throw new AgentZipError('AZ_USAGE', { what, command }, { cause: error });
  }
  return resolve(path);
}
