/** What a refiner may use; from the policy's `encoding`. */
export interface EncodingOptions {
  /** Stored size over page size from which the page stays raw. */
  cutoff: number;
  /** zstd level. */
  level: number;
  delta: boolean;
  siblings: boolean;
  duplicates: boolean;
  /** Learn a dictionary for the pages of a domain that have no base. */
  dictionary: boolean;
  /** Put pages without a base that rest together. */
  clusters: boolean;
  /** Bases tried from each sketch index. */
  candidates: number;
}

/** What may differ from owner to owner; compressors are made for one level, and cost memory. */
export type OwnerEncoding = Partial<Omit<EncodingOptions, 'level'>>;
