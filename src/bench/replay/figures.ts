import { hasBlock, Kind } from '../../codec/kinds.js';
import { PAGE } from '../../native/libc.js';
import { blockBytes } from '../../store/size-classes.js';
import { Super } from '../../store/layout.js';
import { templateBaseAt, templateBases } from '../../store/references.js';
import type { Tables } from '../../store/tables.js';

export const ENCODINGS = [
  'same',
  'template',
  'duplicate',
  'templateDelta',
  'templateRun',
  'siblingDelta',
  'pair',
  'sparse',
  'dictionary',
  'clustered',
  'zstd',
  'raw',
  'staged',
] as const;
export type Encoding = (typeof ENCODINGS)[number];

const ENCODING_OF: Record<number, Encoding> = {
  [Kind.SAME]: 'same',
  [Kind.STAGED]: 'staged',
  [Kind.QUICK]: 'staged',
  [Kind.RAW]: 'raw',
  [Kind.ZSTD]: 'zstd',
  [Kind.DICTIONARY]: 'dictionary',
  [Kind.MEMBER]: 'clustered',
  [Kind.DELTA]: 'siblingDelta',
  [Kind.TEMPLATE_DELTA]: 'templateDelta',
  [Kind.TEMPLATE_RUN]: 'templateRun',
  [Kind.TEMPLATE]: 'template',
  [Kind.PAIR]: 'pair',
  [Kind.TEMPLATE_PAIR]: 'pair',
  [Kind.SPARSE]: 'sparse',
  [Kind.TEMPLATE_SPARSE]: 'sparse',
};

/** Pages, their encoded bytes, and the bytes of the blocks these take in the arena. */
export interface Use {
  pages: number;
  payloadBytes: number;
  blockBytes: number;
}

export interface StoreFigures {
  encodings: Record<Encoding, Use>;
  /** By kind of mapping; an object that several slots name is divided among them. */
  mappings: Record<string, Use>;
  total: Use;
  /** Bytes of distinct template pages that stored pages name. */
  baseUsedBytes: number;
}

const nothing = (): Use => ({ pages: 0, payloadBytes: 0, blockBytes: 0 });

/** Encoding of a slot's page; further slots of an object are duplicates, whichever is asked about. */
export const encodingOf = (tables: Tables, slot: number): Encoding =>
  ENCODING_OF[tables.objectKind[tables.slotObject[slot]]];

function add(use: Use, payload: number, block: number): void {
  use.pages++;
  use.payloadBytes += payload;
  use.blockBytes += block;
}

/** Counts what a store holds. `mappingKind` names the kind of mapping that a slot's page was in. */
export function countFigures(tables: Tables, mappingKind: (slot: number) => string): StoreFigures {
  const { slotObject, superblock, objectKind, objectLength, objectBase, refs } = tables;
  const encodings = Object.fromEntries(ENCODINGS.map((name) => [name, nothing()])) as Record<Encoding, Use>;
  const mappings: Record<string, Use> = {};
  const total = nothing();
  const slotsOf = new Uint32Array(superblock[Super.HIGH_OBJECT]);
  const bases = new Set<number>();
  for (let slot = 0; slot < superblock[Super.HIGH_SLOT]; slot++) slotsOf[slotObject[slot]]++;
  const seen = new Uint8Array(slotsOf.length);
  for (let slot = 0; slot < superblock[Super.HIGH_SLOT]; slot++) {
    const object = slotObject[slot];
    if (object === 0) continue;
    const kind = objectKind[object];
    // Objects without a block of their own may keep something else in their length.
    let payload = hasBlock(kind) ? objectLength[object] : 0;
    let block = blockBytes(payload);
    if (kind === Kind.MEMBER) {
      const cluster = objectBase[object];
      payload = objectLength[cluster] / refs.of(cluster);
      block = blockBytes(objectLength[cluster]) / refs.of(cluster);
    }
    const first = seen[object] === 0 || kind === Kind.SAME;
    const isTemplate = kind === Kind.TEMPLATE;
    seen[object] = 1;
    add(
      encodings[first || isTemplate ? ENCODING_OF[kind] : 'duplicate'],
      first ? payload : 0,
      first ? block : 0,
    );
    add((mappings[mappingKind(slot)] ??= nothing()), payload / slotsOf[object], block / slotsOf[object]);
    add(total, first ? payload : 0, first ? block : 0);
    const named = kind === Kind.MEMBER ? objectBase[object] : object;
    for (let i = templateBases(tables, named) - 1; i >= 0; i--) bases.add(templateBaseAt(tables, named, i));
  }
  return { encodings, mappings, total, baseUsedBytes: bases.size * PAGE };
}
