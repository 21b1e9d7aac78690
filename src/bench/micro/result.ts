import type { BenchResult } from '../result.js';
import { type Spread, spread } from '../stats.js';
import type { Status, TierName } from '../system.js';
import type { Round } from './figures.js';

/** Systems of the micro bench, in the order in which they are listed. */
export const MICRO_SYSTEMS = ['agentzip', 'zswap', 'zram'] as const;
export type MicroSystem = (typeof MICRO_SYSTEMS)[number];

export const ZRAM_ALGORITHMS = ['lzo-rle', 'lz4', 'zstd'] as const;

/** How the systems are set up. */
export interface SwapSettings {
  tier: TierName;
  /** Of the kernel's zram by itself. */
  zramAlgorithm: (typeof ZRAM_ALGORITHMS)[number];
}

/** What was measured of one system in all rounds. */
export interface Measured {
  /** What it is, and how it was set up. */
  description: string;
  rounds: Round[];
  /** AgentZip only: pages by encoding in the last round, when all were out and refined. */
  encodings?: Status['pager']['encodings'];
  notes: string[];
}

interface FaultQuantiles {
  p50: number;
  p90: number;
  p99: number;
}

/** Medians over the rounds, each figure's spread, and the rounds themselves; see micro.schema.json. */
export interface SystemFigures {
  faultUs: FaultQuantiles;
  pageoutMBps: number;
  restoreMBps: number;
  description: string;
  notes: string[];
  spread: Record<string, Spread>;
  rounds: Round[];
}

export interface ZipFigures extends SystemFigures {
  refineMBpsPerCore: number;
  prefetchMBps: number;
  metadataBytesPerPage: number;
  fragmentation: number;
  encodings: Status['pager']['encodings'];
}

/** Why a system was not measured. */
export interface Unmeasured {
  unavailable: string;
}

export interface MicroResult {
  schema: 'agentzip.micro/1';
  host: BenchResult['host'];
  startedAt: string;
  command: string;
  seed: number;
  rounds: number;
  subjectMiB: number;
  /** AgentZip's. */
  tier: TierName;
  faults: number;
  /** vm.page-cluster: the kernel reads up to 2 to the power of it pages ahead of a fault. */
  pageCluster: number;
  /** Load average of the last minute when each round of a system began: what else ran here. */
  load: Spread;
  definitions: Record<string, string>;
  /** What on this host may have shifted the figures, found before the first round. */
  disturbances: string[];
  agentzip: ZipFigures | Unmeasured;
  zswap: SystemFigures | Unmeasured;
  zram: SystemFigures | Unmeasured;
}

/** Spread of each figure over the rounds. */
export function spreads(rounds: readonly Round[]): Record<string, Spread> {
  const names = [...new Set(rounds.flatMap((round) => Object.keys(round)))];
  return Object.fromEntries(
    names.map((name) => [
      name,
      spread(rounds.map((round) => round[name]).filter((value) => value !== undefined)),
    ]),
  );
}

export function figuresOf({ rounds, description, notes }: Measured): SystemFigures {
  const all = spreads(rounds);
  const median = (name: string): number => all[name].median;
  return {
    faultUs: { p50: median('faultP50Us'), p90: median('faultP90Us'), p99: median('faultP99Us') },
    pageoutMBps: median('pageoutMBps'),
    restoreMBps: median('restoreMBps'),
    description,
    notes,
    spread: all,
    rounds,
  };
}

export function zipFiguresOf(measured: Measured & Required<Pick<Measured, 'encodings'>>): ZipFigures {
  const figures = figuresOf(measured);
  const median = (name: string): number => figures.spread[name].median;
  return {
    ...figures,
    refineMBpsPerCore: median('refineMBpsPerCore'),
    prefetchMBps: median('prefetchMBps'),
    metadataBytesPerPage: median('metadataBytesPerPage'),
    fragmentation: median('fragmentation'),
    encodings: measured.encodings,
  };
}
