import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { failed, Lines, within } from '../lines.js';
import { makeWhole } from '../whole-folder.js';
import { guestFolder, initramfs, kernelOf } from './image.js';
import { Machine, machineDescription } from './machine.js';

/** In emulation, with all cores in use by others. */
const WARM_TIMEOUT_MS = 170_000;
const CONSOLE_SHOWN = 2000;
/** Each takes some 150 MiB of disk. */
const KEPT_MS = 24 * 3600 * 1000;

/** A warmed guest at rest. Machines start from it without a boot. */
export interface Snapshot {
  /** All of its memory, byte by byte. */
  memory: string;
  /** Its processor and devices. */
  state: string;
}

export interface SnapshotOptions {
  /** The folder that prepareGuests filled. */
  files: string;
  /** Project's folder, with repo/ and site/; and its task set. */
  root: string;
  taskFile: string;
}

/** Boots and warms a guest and saves it, or finds it as an earlier run has saved it. AZ_WORKLOAD_FAILED. */
export async function takeSnapshot({ files, root, taskFile }: SnapshotOptions): Promise<Snapshot> {
  const image = initramfs(files, root, taskFile);
  const made = createHash('sha256').update(machineDescription()).update(image).digest('hex').slice(0, 16);
  const snapshots = `${guestFolder(files)}/snapshots`;
  const folder = `${snapshots}/${made}`;
  if (!existsSync(folder)) {
    if (existsSync(snapshots)) removeOld(snapshots);
    await makeWhole(folder, (partial) => warm(partial, kernelOf(files), image));
  }
  const now = new Date();
  utimesSync(folder, now, now);
  return { memory: `${folder}/memory`, state: `${folder}/state` };
}

/** Those that no run has used for a day. */
function removeOld(snapshots: string): void {
  for (const name of readdirSync(snapshots)) {
    const path = `${snapshots}/${name}`;
    if (Date.now() - statSync(path).mtimeMs > KEPT_MS) rmSync(path, { recursive: true, force: true });
  }
}

/** The end of what a guest has printed. */
export function lastWords(console: string): string {
  const said = existsSync(console) ? readFileSync(console, 'latin1').slice(-CONSOLE_SHOWN).trim() : '';
  return said || 'nothing';
}

async function warm(folder: string, kernel: string, image: Buffer): Promise<void> {
  const [archive, console] = [`${folder}/initramfs`, `${folder}/console`];
  writeFileSync(archive, image);
  const machine = await Machine.boot(`${folder}/memory`, { kernel, initramfs: archive, console });
  try {
    const ready = new Lines(machine.port, 'the guest').next();
    const line = await within(ready, WARM_TIMEOUT_MS, 'the start of the guest').catch((error: unknown) => {
      throw failed(`${(error as Error).message}; its console says: ${lastWords(console)}`);
    });
    if ((JSON.parse(line) as { ready?: boolean }).ready !== true) throw failed(`the guest said ${line}`);
    await machine.save(`${folder}/state`);
  } finally {
    await machine.end();
  }
  rmSync(archive);
  rmSync(console);
}
