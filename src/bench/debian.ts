import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { AgentZipError } from '../errors.js';

const run = promisify(execFile);
const APT_TIMEOUT_MS = 15 * 60_000;
const QUERY_TIMEOUT_MS = 30_000;

/**
 * Installs what is missing of `packages` from Debian, saying so through `note`; quick when nothing is.
 * AZ_LIBRARY_MISSING when that needs root, or apt-get fails.
 */
export async function ensurePackages(
  packages: readonly string[],
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const missing: string[] = [];
  for (const name of packages) if (!(await isInstalled(name, signal))) missing.push(name);
  if (missing.length === 0) return;
  const list = missing.join(' ');
  const failed = (reason: string): AgentZipError =>
    new AgentZipError('AZ_LIBRARY_MISSING', { library: list, reason, package: list });
  if (process.getuid?.() !== 0) throw failed('it is not installed, and installing needs root');
  note(`installing from Debian: ${list}`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  try {
    await run('apt-get', ['update', '-qq'], { env, signal, timeout: APT_TIMEOUT_MS });
    const install = ['install', '-y', '-qq', '--no-install-recommends', ...missing];
    await run('apt-get', install, { env, signal, timeout: APT_TIMEOUT_MS });
  } catch (error) {
    signal.throwIfAborted();
    throw failed(`apt-get failed: ${(error as { stderr?: string }).stderr?.trim() ?? String(error)}`);
  }
}

async function isInstalled(name: string, signal: AbortSignal): Promise<boolean> {
  const query = ['-W', '-f=${Status}', name];
  try {
    const { stdout } = await run('dpkg-query', query, { signal, timeout: QUERY_TIMEOUT_MS });
    return stdout.includes('install ok installed');
  } catch (error) {
    // Exit status 1: dpkg does not know it. Anything else, such as no dpkg at all, is not ours to mend.
    if ((error as { code?: unknown }).code === 1) return false;
    throw error;
  }
}
