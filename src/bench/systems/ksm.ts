import { spawnSync } from 'node:child_process';
import { AgentZipError } from '../../errors.js';
import { cgroupPids } from '../../memory/cgroup.js';
import type { HostChanges } from './host-changes.js';
import { readKnob } from './knobs.js';
import { marksAll } from './ksm-pages.js';
import type { Part } from './part.js';
import type { Reclaimer, Waiting } from './reclaimer.js';

const KSM = '/sys/kernel/mm/ksm';
const PAGE = 4096;
const RUN = '1';
/** Unmerges everything. */
const UNMERGE = '2';
/**
 * A page is merged at the second scan that finds it unchanged, so a scan of all sandboxes has to take less than half
 * a wait: these let ksmd look at some 100 000 pages a second, for a third of one processor (measured). By default it
 * looks at 5000 a second.
 */
const SETTINGS = {
  pages_to_scan: '5000',
  sleep_millisecs: '20',
  advisor_mode: 'none',
  // It passes pages over that were not merged before, each in scans of its own, so that equal pages miss each other:
  // 880 of 2048 pages that two processes shared were merged with it in 135 scans, all of them in 35 scans without.
  smart_scan: '0',
  use_zero_pages: '1',
};
/** Measuring may take a twentieth of one processor. */
const MEASURE_PAUSE = 20;

/** Sets PR_SET_MEMORY_MERGE (67) and becomes the program; the setting survives fork and, since Linux 6.7, exec. */
const LAUNCH = `
import ctypes, os, signal, sys
if ctypes.CDLL(None, use_errno=True).prctl(67, 1, 0, 0, 0) != 0:
    sys.exit("prctl(PR_SET_MEMORY_MERGE): " + os.strerror(ctypes.get_errno()))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
`;

const PYTHON = '/usr/bin/python3';
const LAUNCHER = [PYTHON, '-I', '-S', '-c', LAUNCH];
/** Fails unless PR_GET_MEMORY_MERGE (68) says that the process is merged. */
const ASK = 'import ctypes, sys; sys.exit(ctypes.CDLL(None).prctl(68, 0, 0, 0, 0) != 1)';

/** Same-page merging of all sandboxes and templates, at a high rate. */
export class Ksm implements Part {
  readonly launcher = LAUNCHER;
  private readonly templates: number[] = [];
  private readonly sandboxes = new Set<Waiting>();
  private readonly timing = { nextAt: 0 };
  /** Pages KSM counts that are counted elsewhere too: owned by a sandbox, or a template's. */
  private elsewhere = { sole: 0, templates: 0 };
  private peak = { shared: 0, sharing: 0, zero: 0 };

  constructor(private readonly reclaimer: Reclaimer) {}

  async start(changes: HostChanges): Promise<void> {
    for (const [name, value] of Object.entries(SETTINGS)) await changes.setKnob(`${KSM}/${name}`, value);
    await changes.setKnob(`${KSM}/run`, RUN, UNMERGE);
  }

  addTemplate(pid: number): void {
    this.templates.push(pid);
  }

  /** AZ_WORKLOAD_FAILED when its processes are not merged: they were started without the launcher. */
  addSandbox(sandbox: Waiting): void {
    this.sandboxes.add(sandbox);
    for (const pid of cgroupPids(sandbox.cgroup)) {
      // Older kernels do not say; then it is taken on trust.
      if (readKnob(`/proc/${pid}/ksm_stat`)?.includes('ksm_merge_any: no') !== true) continue;
      throw new AgentZipError('AZ_WORKLOAD_FAILED', {
        reason: `process ${pid} was not started through the launcher that lets KSM merge it`,
        log: `/proc/${pid}/ksm_stat`,
      });
    }
  }

  removeSandbox(sandbox: Waiting): void {
    this.sandboxes.delete(sandbox);
  }

  /**
   * Merged pages count once: a template's as base, one that a single process still maps as that sandbox's own (its page
   * table shows it so), the rest as pool, with what KSM keeps of every page it looks at.
   */
  async pools(): Promise<{ pool: number; base: number }> {
    await this.measure();
    const shared = count('pages_shared');
    const { sole, templates } = this.elsewhere;
    const merged = Math.max(0, shared - sole - templates);
    if (shared > this.peak.shared)
      this.peak = { shared, sharing: count('pages_sharing'), zero: count('ksm_zero_pages') };
    return { pool: merged * PAGE + rmapBytes(), base: templates * PAGE };
  }

  notes(): string[] {
    const { shared, sharing, zero } = this.peak;
    const settings = Object.entries(SETTINGS).map(([name, value]) => `${name} ${value}`);
    return [
      `KSM with ${settings.join(', ')}, over templates and sandboxes of all tenants; ` +
        `at its fullest ${shared} pages stood for ${shared + sharing}, and ${zero} were zero`,
    ];
  }

  private async measure(): Promise<void> {
    const from = performance.now();
    if (from < this.timing.nextAt) return;
    const cgroups = [...this.sandboxes].map(({ cgroup }) => cgroup);
    const sole = await this.reclaimer.ask({ op: 'soleKsm', cgroups });
    const templates = await this.reclaimer.ask({ op: 'mappedKsm', pids: this.templates });
    this.elsewhere = { sole, templates };
    const to = performance.now();
    this.timing.nextAt = to + (to - from) * MEASURE_PAUSE;
  }
}

/** Full scans of ksmd so far. */
export const fullScans = (): number => count('full_scans');

/** Why this host can not run KSM, or null. */
export function ksmLacks(): string | null {
  const run = readKnob(`${KSM}/run`);
  if (run === null) return 'this kernel has no KSM';
  const [command, ...args] = [...LAUNCHER, PYTHON, '-I', '-S', '-c', ASK];
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) return `PR_SET_MEMORY_MERGE, over exec, needs Linux 6.7 (${stderr.trim() || command})`;
  if (run === RUN || count('pages_shared') > 0) return 'KSM is in use already';
  if (marksAll())
    return 'this kernel marks every page as merged, as 6.12 does: what KSM merges can not be counted';
  return null;
}

/** Bytes of the 64-byte entries that KSM keeps of the pages it looks at, from what it takes off its gain for them. */
const rmapBytes = (): number =>
  Math.max(0, (count('pages_sharing') + count('ksm_zero_pages')) * PAGE - count('general_profit'));

const count = (name: string): number => Number(readKnob(`${KSM}/${name}`) ?? '0');
