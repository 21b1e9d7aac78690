import { readFileSync, writeFileSync } from 'node:fs';
import { freemem, loadavg } from 'node:os';
import { AgentZipError } from '../../errors.js';
import { SandboxCgroups } from '../cgroups.js';
import { Cleanup } from '../cleanup.js';
import { hostDisturbances } from '../disturbances.js';
import type { Screen } from '../live.js';
import { emptyFile } from '../output-files.js';
import { Random } from '../random.js';
import { Reception } from '../sandbox.js';
import { inWorkspace } from '../session.js';
import { spread } from '../stats.js';
import { hostFacts } from '../summary.js';
import type { System, SystemContext } from '../system.js';
import { undoStale } from '../systems/host-changes.js';
import { Template } from '../template.js';
import type { Workspace } from '../workspace.js';
import { measurePrefetch, measureStore } from './agentzip.js';
import { DEFINITIONS } from './definitions.js';
import { measureKernelSwap, type RoundOptions } from './kernel.js';
import {
  figuresOf,
  type Measured,
  MICRO_SYSTEMS,
  type MicroResult,
  type MicroSystem,
  type SwapSettings,
  type SystemFigures,
  type Unmeasured,
  zipFiguresOf,
} from './result.js';
import { Subject, subjectTemplate } from './subject.js';
import { swaps, zip } from './systems.js';
import { microTable } from './table.js';

const MIB = 2 ** 20;
const PAGE = 4096;
/** The template's Python, the locked part of a subject, AgentZip and Node. */
const FIXED_MIB = 1200;
/** The region in the template, its pack, the subject, and its pages in a pool, at worst uncompressed. */
const REGIONS = 4;

export interface MicroOptions extends SwapSettings {
  /** Size of the subject's region. */
  subjectMiB: number;
  rounds: number;
  seed: number;
  /** Random faults timed a round; at most a quarter of the region's pages are. */
  faults: number;
  /** Default: all. */
  systems?: readonly MicroSystem[];
  /** File for the result in schema agentzip.micro/1. */
  json?: string;
  /** What the user typed; goes into the result. */
  command: string;
  screen: Screen;
  /** Ends the bench early, in order; rejects with the signal's reason. */
  signal: AbortSignal;
}

/**
 * Measures AgentZip's store and the kernel's zswap and zram in turn, with the same subject, and prints a table.
 * AZ_RESULTS_DIFFER when one byte comes back wrong; AZ_HOST_NOT_CLEAN when something is left on the host.
 */
export async function runMicro(options: MicroOptions): Promise<MicroResult> {
  requireHost(options);
  const { screen, signal } = options;
  const json = emptyFile('--json', options.json, 'bench');
  const disturbances = hostDisturbances();
  for (const text of disturbances) screen.write(`disturbance ${text}\n`);
  return inWorkspace(options, async (workspace, made) => {
    const bench = new MicroBench(options, workspace, made);
    const result = await bench.run(disturbances).catch((error: unknown) => {
      throw signal.aborted ? signal.reason : error;
    });
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
    screen.write(`${microTable(result)}\n`);
    return result;
  });
}

function requireHost({ subjectMiB }: MicroOptions): void {
  const uid = process.getuid?.() ?? -1;
  if (uid !== 0) throw new AgentZipError('AZ_NOT_ROOT', { uid });
  const neededMiB = subjectMiB * REGIONS + FIXED_MIB;
  const availableMiB = Math.floor(freemem() / MIB); // libuv reads MemAvailable
  if (neededMiB <= availableMiB) return;
  throw new AgentZipError('AZ_USAGE', {
    what: `a subject of ${subjectMiB} MiB needs about ${neededMiB} MiB of memory, and ${availableMiB} MiB is available`,
    command: 'bench',
  });
}

/** One run of the micro bench. */
class MicroBench {
  private readonly loads: number[] = [];
  private readonly startedAt = new Date().toISOString();
  private readonly swaps: ReturnType<typeof swaps>;

  constructor(
    private readonly options: MicroOptions,
    private readonly workspace: Workspace,
    private readonly made: System[],
  ) {
    this.swaps = swaps(options);
  }

  async run(disturbances: string[]): Promise<MicroResult> {
    const systems = new Map<MicroSystem, Measured>();
    const missing: Partial<Record<MicroSystem, string>> = {};
    for (const name of MICRO_SYSTEMS) {
      const { description, requires } = this.swaps[name];
      const reason = this.wanted(name) ? (requires?.() ?? null) : 'not asked for';
      if (reason === null) systems.set(name, { description, rounds: [], notes: [] });
      else missing[name] = reason;
    }
    await withCleanup((cleanup) => this.rounds(systems, cleanup));
    return { ...this.result(systems, missing), disturbances };
  }

  private wanted(name: MicroSystem): boolean {
    return this.options.systems?.includes(name) ?? true;
  }

  private async rounds(systems: Map<MicroSystem, Measured>, cleanup: Cleanup): Promise<void> {
    const { rounds, seed, subjectMiB, screen, signal } = this.options;
    const { folder } = this.workspace;
    for (const what of await undoStale())
      screen.write(`left by a bench that was killed, and undone: ${what}\n`);
    const cgroups = SandboxCgroups.create();
    cleanup.defer('the cgroups', () => cgroups.removeAll());
    const reception = await Reception.listen(`${folder}/sandboxes.sock`);
    cleanup.defer('the reception', () => reception.close());
    const pages = (subjectMiB * MIB) / PAGE;
    const template = await Template.start(subjectTemplate(pages, seed), folder, reception);
    cleanup.defer('the template', () => template.end());
    const names = [...systems.keys()];
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < names.length; i++) {
        const name = names[(i + round) % names.length];
        signal.throwIfAborted();
        screen.write(`round ${round + 1} of ${rounds}: ${name}\n`);
        this.loads.push(loadavg()[0]);
        await this.round(name, systems.get(name) as Measured, { round, template, cgroups });
      }
    }
  }

  /** Measures one system once; what it found is added to `measured`. */
  private async round(name: MicroSystem, measured: Measured, parts: RoundParts): Promise<void> {
    const { seed, faults, subjectMiB, signal } = this.options;
    const options: RoundOptions = {
      seed: new Random(seed, 'micro', parts.round).integer(0, 2 ** 31),
      faults: Math.min(faults, Math.floor((subjectMiB * MIB) / PAGE / 4)),
      signal,
    };
    const { template } = parts;
    const id = `${name}-${parts.round}`;
    if (name !== 'agentzip') {
      measured.rounds.push(
        await this.with(this.swaps[name].make, measured, parts, id, options, (system, subject) =>
          measureKernelSwap(system, subject, options),
        ),
      );
      return;
    }
    const store = await this.with(
      this.swaps.agentzip.make,
      measured,
      parts,
      id,
      options,
      (service, subject) => measureStore(service, subject, template, options),
    );
    const make = (context: SystemContext): System => zip(context, this.options.tier, true);
    const prefetch = await this.with(make, measured, parts, `${id}-prefetch`, options, (service, subject) =>
      measurePrefetch(service, subject, template, options),
    );
    measured.rounds.push({ ...store.figures, ...prefetch });
    measured.encodings = store.encodings;
  }

  /** Runs `measure` with a system of its own and a subject of its own, and ends both. */
  private with<T>(
    make: (context: SystemContext) => System,
    measured: Measured,
    { template, cgroups }: RoundParts,
    id: string,
    { seed }: RoundOptions,
    measure: (system: System, subject: Subject) => Promise<T>,
  ): Promise<T> {
    const { folder, log } = this.workspace;
    const memoryBytes = this.options.subjectMiB * MIB;
    return withCleanup(async (cleanup) => {
      const system = make({ folder, log, cgroups, memoryBytes });
      this.made.push(system);
      // Deferred first, so run last: the subject is gone by then, and there is little to page in.
      cleanup.defer(system.name, async () => {
        await system.stop();
        measured.notes = [...(system.notes ?? [])];
      });
      await system.start();
      const subject = await Subject.make(template, cgroups, id, seed);
      cleanup.defer(id, () => subject.end());
      return measure(system, subject);
    });
  }

  private result(
    systems: ReadonlyMap<MicroSystem, Measured>,
    missing: Partial<Record<MicroSystem, string>>,
  ): Omit<MicroResult, 'disturbances'> {
    const { command, seed, rounds, subjectMiB, tier, faults } = this.options;
    const kernel = (name: MicroSystem): SystemFigures | Unmeasured => {
      const measured = systems.get(name);
      return measured === undefined ? { unavailable: missing[name] ?? '' } : figuresOf(measured);
    };
    const store = systems.get('agentzip');
    return {
      schema: 'agentzip.micro/1',
      host: hostFacts(),
      ...{ startedAt: this.startedAt, command, seed, rounds, subjectMiB, tier, faults },
      pageCluster: Number(readFileSync('/proc/sys/vm/page-cluster', 'utf8')),
      load: spread(this.loads),
      definitions: { ...DEFINITIONS },
      agentzip:
        store?.encodings === undefined
          ? { unavailable: missing.agentzip ?? '' }
          : zipFiguresOf({ ...store, encodings: store.encodings }),
      zswap: kernel('zswap'),
      zram: kernel('zram'),
    };
  }
}

interface RoundParts {
  round: number;
  template: Template;
  cgroups: SandboxCgroups;
}

/** Runs `work`, then undoes what it deferred, also when it fails; its failure comes before one of the undoing. */
async function withCleanup<T>(work: (cleanup: Cleanup) => Promise<T>): Promise<T> {
  const cleanup = new Cleanup();
  let result: T;
  try {
    result = await work(cleanup);
  } catch (error) {
    await cleanup.run().catch(() => undefined); // what is left shows in the check at the very end
    throw error;
  }
  await cleanup.run();
  return result;
}
