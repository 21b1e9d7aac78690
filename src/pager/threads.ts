import type { ClusterTask } from '../store/clusterer.js';
import type { PackMapping } from '../store/packs.js';
import type { EncodingOptions, OwnerEncoding } from '../store/encoding.js';
import type { Unclaimed } from '../store/shrinker.js';
import type { StoreMapping } from '../store/tables.js';
import type { Trained } from '../store/training.js';
import type { VolatileMapping } from '../store/volatile.js';
import type { ChannelPlan } from './requests/channel.js';

/** What the pager's threads tell each other. Addresses are valid in all of them: they share one process. */
export interface DataLoopInput {
  store: StoreMapping;
  storeFd: number;
  volatile: VolatileMapping;
  channel: ChannelPlan;
  /** Address of the log of reads. */
  readLog: number;
  /** Address of the log of writes. */
  writeLog: number;
  /** eventfd that ends the loop's poll. */
  wakeFd: number;
  /** Word that is 1 while there is something to look at besides requests. */
  attention: SharedArrayBuffer;
  stagingBytes: number;
  /** Pager whose end to wait for, as the writer of the store, to take its place then; null: serve from the start. */
  deadPid: number | null;
}

export type DataLoopRequest =
  | {
      id: number;
      op: 'claim';
      owner: number;
      sequence: number;
      slots: Uint32Array;
      soleSince: number | null;
      apart: boolean;
    }
  | { id: number; op: 'expect'; slots: Uint32Array }
  | { id: number; op: 'watch'; owner: number; slots: Uint32Array }
  | { id: number; op: 'free'; owner: number; sequence: number; slots: Uint32Array }
  | { id: number; op: 'doubtSole' }
  | { id: number; op: 'giveWay' }
  | { id: number; op: 'clear' }
  | { id: number; op: 'forget'; owner: number; ended: boolean }
  | { id: number; op: 'flush' }
  | { id: number; op: 'addDictionary'; trained: Trained }
  | { id: number; op: 'addPack'; path: string; mapping: PackMapping }
  | { id: number; op: 'removePack'; pack: number };

/** `removed` false: the pack is in use. */
export interface DataLoopReply {
  id: number;
  staged?: Uint32Array;
  stale?: Uint32Array;
  removed?: boolean;
  sequence?: number;
  freed?: number;
}

/** What the loop says unasked. */
export type DataLoopNotice = { parked: true } | { started: Started } | { ended: true };

export interface Started {
  slots: number;
  objects: number;
  /** Packs that the store named when it was taken over. */
  packs: PackMapping[];
  /** From the end of the last writer to the first request that could be answered, ms; 0 for an empty store. */
  takeoverMs: number;
  /** The kernel sends what the last writer had not answered once more. */
  resent: boolean;
}

export interface RefineWorkerInput {
  worker: number;
  /** See PagerOptions. */
  stagingBytes: number;
  store: StoreMapping;
  volatile: VolatileMapping;
  wakeFd: number;
  attention: SharedArrayBuffer;
  encoding: EncodingOptions;
  packs: PackMapping[];
}

export type RefineRequest =
  | { op: 'addPack'; mapping: PackMapping }
  | { op: 'removePack'; pack: number }
  | { op: 'cluster'; task: ClusterTask; from: number }
  | { op: 'shrink'; unclaimed: Unclaimed; from: number }
  | {
      op: 'refine';
      owner: number;
      domain: number;
      pack: number;
      /** See openWindow. */
      encoding: OwnerEncoding | undefined;
      slots: Uint32Array;
      templatePages: Uint32Array;
      /** They were only made smaller before, and are refined now. */
      deferred: boolean;
      /** They are only to be made smaller at first. */
      rushed: boolean;
    };

/**
 * How many of a batch were looked at before it was done or its window closed, which of these are still to be refined, how many
 * bytes they became smaller by and the processor time that took; that
 * a pack is let go; its thread, when it starts; the slot at which to go on putting pages together, or making unclaimed ones smaller (-1: all were looked at);
 * or what came of making a dictionary, which a worker that `trains` does behind its batch, when its owner no longer waits for it.
 * `endedAtMs`: when the worker had nothing of the owner in hand any more, on the host's monotonic clock.
 */
export type RefineReply =
  | {
      owner: number;
      processed: number;
      deferred: number[];
      trains: boolean;
      savedBytes: number;
      cpuMs: number;
      endedAtMs: number;
    }
  | { trained: Trained | null }
  | { owner: number; clusteredTo: number; endedAtMs: number }
  | { owner: 0; shrunkTo: number }
  | { released: number }
  | { thread: number };
