import { Kind } from '../codec/kinds.js';
import { MAX_CLUSTER_BASES, objectBaseAt, objectBases } from './references.js';
import type { Tables } from './tables.js';

/**
 * Most objects that are decoded one after the other to get at a page, besides the page's own. A pair has two bases, so
 * a page takes up to 2^DEPTH + 1 decodings.
 */
export const DEPTH = 1;

/** Longest chain of objects below this one: 0 when no base of it is an object. More than DEPTH: too long to tell. */
export function depthOf(tables: Tables, object: number, most = DEPTH): number {
  // A cluster is decoded in one step and in a place of its own: what it rests on counts, and it does not.
  const from = tables.objectKind[object] === Kind.MEMBER ? tables.objectBase[object] : object;
  const bases = Math.min(objectBases(tables, from), MAX_CLUSTER_BASES);
  if (bases === 0) return 0;
  if (most === 0) return 1;
  let deepest = 0;
  for (let i = 0; i < bases; i++)
    deepest = Math.max(deepest, depthOf(tables, objectBaseAt(tables, from, i), most - 1));
  return 1 + deepest;
}
