/** How an object holds its page. The numbers are part of the store's format. */
export const Kind = {
  /** No object. */
  FREE: 0,
  /** Every 8-byte word is the same; the word sits in the object itself. */
  SAME: 1,
  /** As written, waiting to be refined. */
  STAGED: 2,
  /** As written, because nothing smaller pays. */
  RAW: 3,
  ZSTD: 4,
  /** zstd with another object's page as prefix. */
  DELTA: 5,
  /** zstd with a template's page as prefix. */
  TEMPLATE_DELTA: 6,
  /** Equal to a template's page. */
  TEMPLATE: 7,
  /** zstd with a run of a template's pages as prefix; the base names the first. */
  TEMPLATE_RUN: 8,
  /** zstd with two pages as prefix: the second base's, whose name is at the head of the block, then the base's. */
  PAIR: 9,
  /** The same; the second base is a template's page. */
  TEMPLATE_PAIR: 10,
  /** Another object's page with a few words changed: see `sparseDiff` in kernels/page.ts. */
  SPARSE: 11,
  /** A template's page with a few words changed. */
  TEMPLATE_SPARSE: 12,
  /** zstd with a dictionary of the domain; the base is its number. */
  DICTIONARY: 13,
  /** A page of a cluster: the base is the cluster, the length the page's number in it. */
  MEMBER: 14,
  /** Pages compressed as one, with the dictionary that the base names, if any. No slot names it: its members do. */
  CLUSTER: 15,
  /** zstd by itself for want of time or room, waiting to be refined. Nobody's yet, as a staged page. */
  QUICK: 16,
  /** Pages compressed as one with all their bases as prefix: the base is how many these are, the block begins with their names. */
  BASED_CLUSTER: 17,
} as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** Bytes at the head of a pair's block: the second base's name, u32. */
export const PAIR_HEAD = 4;

const kinds = (...members: Kind[]): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, kind) => (members.includes(kind as Kind) ? 1 : 0));
const BLOCKLESS = kinds(Kind.FREE, Kind.SAME, Kind.TEMPLATE, Kind.MEMBER);
const ON_OBJECT = kinds(Kind.DELTA, Kind.PAIR, Kind.TEMPLATE_PAIR, Kind.SPARSE, Kind.MEMBER);
const ON_TEMPLATE = kinds(Kind.TEMPLATE, Kind.TEMPLATE_DELTA, Kind.TEMPLATE_RUN, Kind.TEMPLATE_SPARSE);
const JOINING = kinds(
  ...[
    Kind.ZSTD,
    Kind.DICTIONARY,
    Kind.MEMBER,
    Kind.DELTA,
    Kind.TEMPLATE_DELTA,
    Kind.PAIR,
    Kind.TEMPLATE_PAIR,
  ],
  ...[Kind.SPARSE, Kind.TEMPLATE_SPARSE],
);
const ALONE = kinds(Kind.RAW, Kind.ZSTD, Kind.DICTIONARY);
const CLUSTERS = kinds(Kind.CLUSTER, Kind.BASED_CLUSTER);
// Staged pages will be gone soon; what is equal to a template's page is found in the template.
const NO_BASE = kinds(
  ...[Kind.FREE, Kind.SAME, Kind.STAGED, Kind.QUICK, Kind.TEMPLATE, Kind.CLUSTER, Kind.BASED_CLUSTER],
);
// Staged pages are not compared yet, same-filled ones cost nothing, and a cluster is no page.
const NOT_INDEXED = kinds(Kind.STAGED, Kind.QUICK, Kind.SAME, Kind.CLUSTER, Kind.BASED_CLUSTER);
const WAITING = kinds(Kind.STAGED, Kind.QUICK);
const WITH_DICTIONARY = kinds(Kind.DICTIONARY, Kind.CLUSTER);

/** Is it still to be refined? */
export const awaitsRefinement = (kind: number): boolean => WAITING[kind] === 1;
/** Has it bytes in the arena? */
export const hasBlock = (kind: number): boolean => BLOCKLESS[kind] === 0;
/** Is its base another object? */
export const namesObject = (kind: number): boolean => ON_OBJECT[kind] === 1;
/** Is its base a page of a template? */
export const namesTemplate = (kind: number): boolean => ON_TEMPLATE[kind] === 1;
/** Has it no base, though it may have a dictionary? */
export const isAlone = (kind: number): boolean => ALONE[kind] === 1;
/** Is it found by its content? */
export const isIndexed = (kind: number): boolean => NOT_INDEXED[kind] === 0;
/** Is it no page, but some together? */
export const isCluster = (kind: number): boolean => CLUSTERS[kind] === 1;
/** May its page become one of a cluster? */
export const mayJoin = (kind: number): boolean => JOINING[kind] === 1;
/** Is its base a dictionary? That of a cluster may be 0, none. */
export const namesDictionary = (kind: number): boolean => WITH_DICTIONARY[kind] === 1;
/** May other objects be deltas against it, if its own bases do not lie too deep? */
export const canBeBase = (kind: number): boolean => NO_BASE[kind] === 0;
