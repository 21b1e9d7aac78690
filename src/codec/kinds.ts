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
} as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** May other objects be deltas against it? Deltas may not (depth one); staged pages will be gone soon. */
export const canBeBase = (kind: number): boolean => kind === Kind.RAW || kind === Kind.ZSTD;
