import type { PackMapping } from '../store/packs.js';
import type { EncodingOptions } from '../store/refiner.js';
import type { StoreMapping } from '../store/tables.js';
import type { VolatileMapping } from '../store/volatile.js';

/** What the pager's threads tell each other. Addresses are valid in all of them: they share one process. */
export interface DataLoopInput {
  store: StoreMapping;
  storeFd: number;
  volatile: VolatileMapping;
  fuseFd: number;
  /** eventfd that ends the loop's poll. */
  wakeFd: number;
  /** Word that is 1 while there is something to look at besides requests. */
  attention: SharedArrayBuffer;
  stagingBytes: number;
}

export type DataLoopRequest =
  | {
      id: number;
      op: 'claim';
      owner: number;
      sequence: number;
      slots: Uint32Array;
      soleSince: number | null;
    }
  | { id: number; op: 'watch'; owner: number; slots: Uint32Array }
  | { id: number; op: 'free'; owner: number; sequence: number; slots: Uint32Array }
  | { id: number; op: 'doubtSole' }
  | { id: number; op: 'forget'; owner: number; ended: boolean }
  | { id: number; op: 'flush' }
  | { id: number; op: 'addPack'; mapping: PackMapping }
  | { id: number; op: 'removePack'; pack: number };

/** `removed` false: the pack is in use. */
export interface DataLoopReply {
  id: number;
  staged?: Uint32Array;
  stale?: number;
  removed?: boolean;
  sequence?: number;
  freed?: number;
}

/** What the loop says unasked. */
export type DataLoopNotice = { started: { slots: number; objects: number } } | { ended: true };

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
  | {
      op: 'refine';
      owner: number;
      domain: number;
      pack: number;
      slots: Uint32Array;
      templatePages: Uint32Array;
    };

/** How many of a batch were looked at before it was done or its window closed; or that a pack is let go. */
export type RefineReply = { owner: number; processed: number } | { released: number };
