import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { packageRoot } from '../paths.js';
import { mountsBelow } from './host.js';
import { isAlive } from './processes.js';

/** On disk, not tmpfs: the store's files must not themselves be pages that the kernel can swap out. */
const PARENT = '/var/tmp';
const PREFIX = 'agentzip-bench-';
const DRAIN_TIMEOUT_MS = 60_000;

/** The folder of one bench: sockets, caches, AgentZip's state. */
export class Workspace {
  readonly folder: string;
  /** Outside the folder, so that it can be read after a failure. */
  readonly log: string;

  constructor() {
    removeStale();
    this.folder = mkdtempSync(`${PARENT}/${PREFIX}${process.pid}-`);
    this.log = `${this.folder}.log`;
  }

  /** Leaves the folder alone while something is mounted in it: its files are then not ours to delete. */
  remove(options: { keepLog: boolean }): void {
    if (mountsBelow(this.folder).length === 0) rmSync(this.folder, { recursive: true, force: true });
    if (!options.keepLog) rmSync(this.log, { force: true });
  }
}

/** A bench that was killed outright could not stop its AgentZip: the next one drains it. */
function removeStale(): void {
  for (const name of readdirSync(PARENT)) {
    const pid = /^agentzip-bench-(\d+)-[^.]*$/.exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const folder = `${PARENT}/${name}`;
    if (existsSync(`${folder}/run`)) {
      const command = [`${packageRoot}/dist/cli/main.js`, 'drain', '--runtime-dir', `${folder}/run`];
      spawnSync(process.execPath, command, { stdio: 'ignore', timeout: DRAIN_TIMEOUT_MS });
    }
    if (mountsBelow(folder).length === 0) {
      rmSync(folder, { recursive: true, force: true });
      rmSync(`${folder}.log`, { force: true });
    }
  }
}
