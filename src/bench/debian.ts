import { execFile, type ExecFileException } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { AgentZipError } from '../errors.js';

const run = promisify(execFile);
const APT_TIMEOUT_MS = 15 * 60_000;
const QUERY_TIMEOUT_MS = 30_000;
const COMMAND_TIMEOUT_MS = 300_000;
const MAX_OUTPUT = 16 * 2 ** 20;

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

/** Brings packages into a folder made anew, as files, without installing them. AZ_WORKLOAD_FAILED when that fails. */
export async function downloadPackages(
  folder: string,
  packages: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await apt(['download', '-q', ...packages], folder, signal);
}

/** Runs apt-get; once more behind `apt-get update` when it fails, as on a machine whose lists are old or missing. */
async function apt(args: readonly string[], cwd: string, signal: AbortSignal): Promise<void> {
  const once = (...command: string[]): Promise<unknown> =>
    execute('apt-get', command, { cwd, signal, env: { DEBIAN_FRONTEND: 'noninteractive' } });
  try {
    await once(...args);
  } catch {
    signal.throwIfAborted();
    await once('update', '-qq');
    await once(...args);
  }
}

export interface CommandOptions {
  signal: AbortSignal;
  cwd?: string;
  env?: Record<string, string>;
  mayFail?: boolean;
}

/** Runs a command and returns what it printed. AZ_WORKLOAD_FAILED with its last words when it fails. */
export async function execute(
  program: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<string> {
  const { signal, cwd, env, mayFail = false } = options;
  try {
    const settings = { cwd, signal, timeout: COMMAND_TIMEOUT_MS, maxBuffer: MAX_OUTPUT };
    const { stdout } = await run(program, args, {
      ...settings,
      env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', ...env },
    });
    return stdout;
  } catch (error) {
    signal.throwIfAborted();
    if (mayFail) return '';
    const { message, stderr } = error as ExecFileException & { stderr?: string };
    const reason = `${program} ${args[0]}: ${(stderr || message).trim().split('\n').slice(-3).join('; ')}`;
    throw new AgentZipError('AZ_WORKLOAD_FAILED', { reason, log: 'the lines above' }, { cause: error });
  }
}
