import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { packageRoot } from '../../paths.js';
import { failed } from '../lines.js';
import { makeWhole } from '../whole-folder.js';
import type { Plan, PlanOptions, Workload } from '../workload.js';
import { PACKAGES, planNode } from './node-plan.js';

const TEMPLATE = 'node';
const TENANT = 'node';
/** Fan-outs: half of the agents work at one task, half at another. */
const TASKS = 2;
const PROGRAM = `${packageRoot}/src/bench/programs/node-tools.mjs`;
/** Sends SIGKILL to the program when the bench ends; of util-linux. */
const SETPRIV = ['/usr/bin/setpriv', '--pdeathsig', 'KILL'];
/** A sandbox's share of the host, in MiB; what V8's default, 2 GiB and more, would let it grow to is not. */
const HEAP_FLAGS = ['--max-old-space-size=256', '--max-semi-space-size=4'];

const LOCK = readFileSync(`${packageRoot}/src/bench/workloads/node-lock.json`, 'utf8');

/** Where the packages are, below the folder kept between runs: another lock file is another folder. */
export function packagesFolder(files: string): string {
  return `${files}/node-8-${createHash('sha256').update(LOCK).digest('hex').slice(0, 12)}`;
}

/** Runs `npm ci` in a folder. AZ_LIBRARY_MISSING without npm, AZ_WORKLOAD_FAILED when it fails. */
async function installInto(folder: string, signal: AbortSignal): Promise<void> {
  const manifest = {
    name: 'agentzip-node-8',
    version: '1.0.0',
    private: true,
    dependencies: PACKAGES.dependencies,
  };
  writeFileSync(`${folder}/package.json`, JSON.stringify(manifest));
  writeFileSync(`${folder}/package-lock.json`, LOCK);
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = spawn('npm', ['ci', ...flags], { cwd: folder, signal, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  npm.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-2000)));
  try {
    const [code] = (await once(npm, 'close')) as [number | null];
    if (code !== 0) throw failed(`npm ci ended with ${code ?? 'a signal'}: ${said.trim()}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const reason = (error as Error).message;
    throw new AgentZipError('AZ_LIBRARY_MISSING', { library: 'npm', reason, package: 'npm' });
  }
}

export const node8: Workload = {
  name: 'node-8',
  description:
    'Node.js tool servers, each started by itself, that type-check, lint and test real npm packages',
  sandboxes: 8,
  turns: 12,
  sandboxMiB: 230,

  async prepare(files: string, note: (line: string) => void, signal: AbortSignal): Promise<void> {
    const folder = packagesFolder(files);
    if (existsSync(folder)) return;
    const names = Object.entries(PACKAGES.dependencies).map(([name, version]) => `${name}@${version}`);
    note(`installing from the npm registry into ${folder}: ${names.join(', ')}, and what they depend on`);
    await makeWhole(folder, (partial) => installInto(partial, signal));
  },

  plan({ files, ...options }: PlanOptions): Plan {
    const command = [...SETPRIV, process.execPath, ...HEAP_FLAGS, PROGRAM, packagesFolder(files)];
    return {
      templates: [{ id: TEMPLATE, tenant: TENANT, launch: 'fresh', command, env: {} }],
      trajectories: planNode({ ...options, tasks: TASKS, template: TEMPLATE, tenant: TENANT }),
    };
  },
};
