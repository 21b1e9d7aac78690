import { join, resolve } from 'node:path';
import { AgentZipError } from '../errors.js';
import { DEFAULT_POLICY } from '../policy/defaults.js';

export const DEFAULT_RUNTIME_DIR = DEFAULT_POLICY.paths.runtimeDir;

/** Names that other programs rely on, below the runtime directory. */
export const controlSocket = (runtimeDir: string): string => join(runtimeDir, 'agentzip.sock');
export const pagerSocket = (runtimeDir: string): string => join(runtimeDir, 'pager.sock');

/** Longest name of a Unix socket: sun_path has 108 bytes with its terminating zero. */
const MAX_SOCKET_NAME_BYTES = 107;

/** Absolute path of a runtime directory given by hand. Errors: AZ_USAGE when its sockets' names would be too long. */
export function checkedRuntimeDir(path: string): string {
  const absolute = resolve(path);
  const excess = Buffer.byteLength(controlSocket(absolute)) - MAX_SOCKET_NAME_BYTES;
  if (excess <= 0) return absolute;
  const what = `--runtime-dir is ${excess} bytes too long for the name of a Unix socket`;
  throw new AgentZipError('AZ_USAGE', { what, command: 'run' });
}
