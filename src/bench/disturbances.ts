import { readdirSync, readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { swapAreas } from '../memory/swap.js';

const MIB = 2 ** 20;
/** Pressure over the last 10 s in percent, and load per processor, above which the host is not idle. */
const PRESSURE_PERCENT = 5;
const LOAD_PER_CPU = 0.3;
const KDAMONDS = '/sys/kernel/mm/damon/admin/kdamonds';

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
};

/** What on this host, before anything is started, may shift the figures; in words. */
export function hostDisturbances(): string[] {
  const found: string[] = [];
  for (const kind of ['cpu', 'memory']) {
    const percent = Number(/^some avg10=([\d.]+)/.exec(read(`/proc/pressure/${kind}`))?.[1] ?? 0);
    if (percent > PRESSURE_PERCENT) found.push(`before the start: ${kind} pressure ${percent} % over 10 s`);
  }
  const [load] = loadavg();
  if (load > LOAD_PER_CPU * cpus().length)
    found.push(`before the start: load ${load.toFixed(1)} on ${cpus().length} processors`);
  for (const { path, usedBytes } of swapAreas())
    found.push(`before the start: swap on ${path}, ${Math.round(usedBytes / MIB)} MiB in use`);
  if (read('/sys/module/zswap/parameters/enabled') === 'Y') found.push('before the start: zswap is on');
  if (read('/sys/kernel/mm/ksm/run') === '1') found.push('before the start: KSM is on');
  if (read('/sys/module/damon_reclaim/parameters/enabled') === 'Y')
    found.push('before the start: DAMON reclaims memory');
  if (activeKdamonds().length > 0) found.push('before the start: DAMON watches memory');
  return found;
}

function activeKdamonds(): string[] {
  try {
    return readdirSync(KDAMONDS).filter((name) => read(`${KDAMONDS}/${name}/state`) === 'on');
  } catch {
    return [];
  }
}
