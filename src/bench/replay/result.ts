import { PAGE } from '../../native/libc.js';
import { zstdVersion } from '../../native/zstd.js';
import type { EncodingOptions } from '../../store/encoding.js';
import type { BenchResult } from '../result.js';
import { hostFacts } from '../summary.js';
import type { BaselineResult } from './baselines.js';
import type { DecodeTimes } from './decode-times.js';
import type { DumpHeader } from './dump.js';
import { countFigures, type Encoding, type StoreFigures, type Use } from './figures.js';
import type { ReplayStore } from './replay-store.js';

/** What a replay found; src/bench/replay.schema.json says what each figure means. */
export interface ReplayResult {
  schema: 'agentzip.replay/1';
  host: BenchResult['host'] & { zstd: string };
  workload: string;
  seed: number;
  turn: number;
  sandboxes: number;
  encoding: EncodingOptions;
  pages: number;
  dumpBytes: number;
  leftPages: number;
  identical: true;
  ratio: { templateFree: number; templateCharged: number; templateUsed: number; blocks: number };
  encodings: Record<Encoding, Use>;
  mappings: Record<string, Use>;
  memory: {
    payloadBytes: number;
    blockBytes: number;
    arenaBytes: number;
    dictionaryBytes: number;
    tableBytes: number;
    indexBytes: number;
    bufferBytes: number;
    poolBytes: number;
    baseResidentBytes: number;
    baseUsedBytes: number;
  };
  metadataBytesPerPage: number;
  fragmentation: { rounding: number; segments: number };
  refine: {
    pages: number;
    usPerPage: number;
    mbPerSecond: number;
    commitUsPerPage: number;
    clusterUsPerPage: number;
  };
  decodeUs: DecodeTimes;
  baselines: BaselineResult[];
  disturbances: string[];
}

/** What was counted while the dumps went by. */
export interface Replayed {
  headers: readonly DumpHeader[];
  encoding: EncodingOptions;
  store: ReplayStore;
  mappingKind: (slot: number) => string;
  baselines: BaselineResult[];
  decodeUs: DecodeTimes;
  disturbances: string[];
}

const share = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);

export function summarizeReplay(replayed: Replayed): ReplayResult {
  const { headers, encoding, store, baselines, decodeUs } = replayed;
  const figures = countFigures(store.tables, replayed.mappingKind);
  const sum = (pick: (header: DumpHeader) => number): number => headers.reduce((n, h) => n + pick(h), 0);
  const pages = sum((header) => header.pages + header.zeroPages);
  const dumpBytes = pages * PAGE;
  const memory = memoryOf(store, figures);
  const { payloadBytes, blockBytes, arenaBytes, poolBytes } = memory;
  const { refineMs, commitMs, refined, clusterMs } = store.spent;
  const clustered = figures.encodings.clustered.pages;
  const [{ workload, seed, turn }] = headers;
  return {
    schema: 'agentzip.replay/1',
    host: { ...hostFacts(), zstd: zstdVersion() },
    ...{ workload, seed, turn, sandboxes: headers.length, encoding, pages, dumpBytes },
    leftPages: sum((header) => header.leftPages),
    identical: true,
    ratio: {
      templateFree: dumpBytes / poolBytes,
      templateCharged: dumpBytes / (poolBytes + memory.baseResidentBytes),
      templateUsed: dumpBytes / (poolBytes + memory.baseUsedBytes),
      blocks: dumpBytes / Math.max(1, blockBytes),
    },
    encodings: figures.encodings,
    mappings: figures.mappings,
    memory,
    metadataBytesPerPage: share(memory.tableBytes + memory.indexBytes, pages),
    fragmentation: {
      rounding: share(blockBytes - payloadBytes, arenaBytes),
      segments: share(arenaBytes - blockBytes, arenaBytes),
    },
    refine: {
      pages: refined,
      usPerPage: share(refineMs * 1000, refined),
      mbPerSecond: share(refined * PAGE, refineMs * 1000),
      commitUsPerPage: share(commitMs * 1000, refined),
      clusterUsPerPage: share(clusterMs * 1000, clustered),
    },
    decodeUs,
    baselines,
    disturbances: replayed.disturbances,
  };
}

function memoryOf(store: ReplayStore, { total, baseUsedBytes }: StoreFigures): ReplayResult['memory'] {
  const { arena, dictionaries, tables, indexes, buffers } = store.memory();
  return {
    // A cluster is divided among its pages: the sum is whole again but for the rounding of floats.
    payloadBytes: Math.round(total.payloadBytes),
    blockBytes: Math.round(total.blockBytes),
    arenaBytes: arena,
    dictionaryBytes: dictionaries,
    tableBytes: tables,
    indexBytes: indexes,
    bufferBytes: buffers,
    poolBytes: arena + dictionaries + tables + indexes + buffers,
    baseResidentBytes: store.baseResidentBytes(),
    baseUsedBytes,
  };
}
