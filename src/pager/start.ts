import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError, explain } from '../errors.js';
import { packageRoot } from '../paths.js';
import { adopt } from './succession/adopt.js';
import { PagerClient } from './client.js';
import { hasPager, pagerLog, pagerSocket, type PagerOptions } from './options.js';

const START_TIMEOUT_MS = 20_000;
const PAUSE_MS = 20;

const isAbsent = (error: unknown): boolean =>
  ['ENOENT', 'ECONNREFUSED'].includes((error as NodeJS.ErrnoException).code ?? '');

/** A connection to the pager that runs here, or null. */
export async function findPager(runtimeDir: string): Promise<PagerClient | null> {
  try {
    return await PagerClient.connect(pagerSocket(runtimeDir));
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
}

async function adopted(client: PagerClient): Promise<PagerClient> {
  try {
    await adopt(client);
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

/** Takes over the pager that runs here, or starts one. It outlives us. AZ_PAGER_START, AZ_PAGER_VERSION. */
export async function startPager(options: PagerOptions): Promise<PagerClient> {
  const { runtimeDir } = options;
  for (let waited = 0; ; waited += PAUSE_MS) {
    const running = await findPager(runtimeDir);
    if (running !== null) return adopted(running);
    // One that holds the lock and does not listen is just taking over from one that died.
    if (!hasPager(runtimeDir)) break;
    if (waited >= START_TIMEOUT_MS)
      throw failed(pagerLog(runtimeDir), 'it holds its lock, but does not answer');
    await sleep(PAUSE_MS);
  }
  mkdirSync(options.runtimeDir, { recursive: true, mode: 0o700 });
  const path = pagerLog(options.runtimeDir);
  const log = openSync(path, 'w', 0o600);
  const child = spawn(
    process.execPath,
    [`${packageRoot}/dist/pager/process/launcher.js`, JSON.stringify(options)],
    {
      detached: true,
      stdio: ['ignore', log, log],
      cwd: '/',
    },
  );
  closeSync(log);
  child.unref();
  let ended: string | undefined;
  child.once('error', (error) => (ended = error.message));
  child.once(
    'exit',
    (code, signal) => (ended = signal === null ? `exit status ${code}` : `signal ${signal}`),
  );
  for (let waited = 0; waited < START_TIMEOUT_MS; waited += PAUSE_MS) {
    const client = await findPager(options.runtimeDir);
    if (client !== null) return client;
    if (ended !== undefined) throw failed(path, ended);
    await sleep(PAUSE_MS);
  }
  throw failed(path, `no answer within ${START_TIMEOUT_MS / 1000} s`);
}

/** The last thing the pager said is the best reason there is. */
function failed(log: string, reason: string): AgentZipError {
  let last = '';
  try {
    last = readFileSync(log, 'utf8').trim().split('\n').at(-1) ?? '';
  } catch (error) {
    last = explain(error);
  }
  return new AgentZipError('AZ_PAGER_START', { reason: last === '' ? reason : `${last} (${reason})`, log });
}
