import { Kind, namesObject } from '../codec/kinds.js';
import type { Tables } from './tables.js';

/**
 * Most objects that are decoded one after the other to get at a page, besides the page's own. A pair has two bases, so
 * a page takes up to 2^DEPTH + 1 decodings.
 */
export const DEPTH = 1;

/** Longest chain of objects below this one: 0 when no base of it is an object. More than DEPTH: too long to tell. */
export function depthOf(tables: Tables, object: number, most = DEPTH): number {
  const kind = tables.objectKind[object];
  // A cluster is decoded in one step and in a place of its own.
  if (!namesObject(kind) || kind === Kind.MEMBER) return 0;
  if (most === 0) return 1;
  const first = depthOf(tables, tables.objectBase[object], most - 1);
  return (
    1 + (kind === Kind.PAIR ? Math.max(first, depthOf(tables, tables.secondBase(object), most - 1)) : first)
  );
}
