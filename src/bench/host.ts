import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { swapAreas } from '../memory/swap.js';
import { leftCgroups } from './cgroups.js';
import { leftAccounting } from './sandbox-cpu.js';
import { leftChanges } from './systems/host-changes.js';

/**
 * What a demo whose files were below `folder` left on this host: swap and loop devices, mounts, cgroups, processes, and
 * what systems under test changed, zram devices and knobs among it.
 * What a system knows of by itself is in its `left`. Empty when the host is clean.
 */
export function leftOnHost(folder: string): string[] {
  const loops = loopDevices().filter(({ file }) => file.startsWith(folder));
  const ours = new Set(loops.map(({ device }) => device));
  return [
    ...swapAreas()
      .filter(({ path }) => ours.has(path) || path.startsWith(folder))
      .map(({ path }) => `swap ${path}`),
    ...loops.map(({ device }) => `loop device ${device}`),
    ...mountsBelow(folder).map((path) => `mount ${path}`),
    ...[...leftCgroups(), ...leftAccounting()].map((path) => `cgroup ${path}`),
    ...leftChanges(),
    ...processesNaming(folder).map((pid) => `process ${pid}`),
  ];
}

function loopDevices(): { device: string; file: string }[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop') && existsSync(`/sys/block/${name}/loop/backing_file`))
    .map((name) => {
      const file = readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').trim();
      return { device: `/dev/${name}`, file };
    });
}

export function mountsBelow(folder: string): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path === folder || path.startsWith(`${folder}/`));
}

/** Processes with the folder in their arguments or environment: AgentZip, its pager, the template, its sandboxes. */
export function processesNaming(folder: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid)
    .filter((pid) => {
      const read = (file: string): string => {
        try {
          return readFileSync(`/proc/${pid}/${file}`, 'latin1');
        } catch {
          return '';
        }
      };
      return read('cmdline').includes(folder) || read('environ').includes(folder);
    });
}
