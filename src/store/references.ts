import { Kind, namesObject, namesTemplate } from '../codec/kinds.js';
import type { Tables } from './tables.js';

/** Most bases of a cluster. */
export const MAX_CLUSTER_BASES = 8;
const COUNT_BITS = 8;
const COUNT_MASK = 2 ** COUNT_BITS - 1;

/** What a cluster with bases keeps as its base: how many are objects and how many are pages of templates, which come last. */
export const baseCounts = (objects: number, templates: number): number => objects | (templates << COUNT_BITS);
export const objectsIn = (counts: number): number => counts & COUNT_MASK;
export const basesIn = (counts: number): number => objectsIn(counts) + (counts >>> COUNT_BITS);

/** How many other objects an object names. */
export function objectBases({ objectKind, objectBase }: Tables, object: number): number {
  const kind = objectKind[object];
  if (kind === Kind.BASED_CLUSTER) return objectsIn(objectBase[object]);
  return namesObject(kind) ? (kind === Kind.PAIR ? 2 : 1) : 0;
}

/** The one with number `i`. */
export function objectBaseAt(tables: Tables, object: number, i: number): number {
  if (tables.objectKind[object] === Kind.BASED_CLUSTER) return tables.headWord(object, i);
  return i === 0 ? tables.objectBase[object] : tables.secondBase(object);
}

/** How many pages of templates an object names. */
export function templateBases({ objectKind, objectBase }: Tables, object: number): number {
  const kind = objectKind[object];
  if (kind !== Kind.BASED_CLUSTER) return namesTemplate(kind) || kind === Kind.TEMPLATE_PAIR ? 1 : 0;
  return basesIn(objectBase[object]) - objectsIn(objectBase[object]);
}

/** The one with number `i`. */
export function templateBaseAt(tables: Tables, object: number, i: number): number {
  const kind = tables.objectKind[object];
  if (kind === Kind.TEMPLATE_PAIR) return tables.secondBase(object);
  if (kind !== Kind.BASED_CLUSTER) return tables.objectBase[object];
  return tables.headWord(object, objectsIn(tables.objectBase[object]) + i);
}

/** Has a base that an object names no slot any more, and no other object? Then it is kept for that one, and goes with it. */
export const isKeptForOne = ({ refs }: Tables, base: number): boolean => refs.of(base) === 1;
