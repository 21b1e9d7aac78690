import { Kind } from '../codec/kinds.js';
import { MAX_CLUSTER } from './layout.js';
import {
  baseCounts,
  isKeptForOne,
  MAX_CLUSTER_BASES,
  objectBaseAt,
  objectBases,
  templateBaseAt,
  templateBases,
} from './references.js';
import { MEMBER_WORDS } from './results.js';
import type { Tables } from './tables.js';

/** Other clusters that must be decoded to get at a cluster's bases: each costs as much as the cluster itself, or more. */
const MAX_CLUSTERS_BELOW = 1;

/** Distinct names, few. */
class Names {
  count = 0;
  readonly at: Uint32Array;

  constructor(private readonly most: number) {
    this.at = new Uint32Array(most);
  }

  /** False when there is no room. */
  add(name: number): boolean {
    for (let i = 0; i < this.count; i++) if (this.at[i] === name) return true;
    if (this.count === this.most) return false;
    this.at[this.count++] = name;
    return true;
  }
}

/** Pages that are to become one cluster, and what they rest on. */
export class ClusterGroup {
  count = 0;
  /** Bytes the pages take now. */
  taken = 0;
  /** What the result says of each; see Member. */
  readonly members = new Uint32Array(MAX_CLUSTER * MEMBER_WORDS);
  readonly objects = new Names(MAX_CLUSTER_BASES);
  readonly templates = new Names(MAX_CLUSTER_BASES);
  private readonly clustersBelow = new Names(MAX_CLUSTERS_BELOW);

  /** `pages`: where in the workspace the pages are; `size`: at most how many. */
  constructor(
    readonly pages: number,
    private readonly size: number,
  ) {}

  get isFull(): boolean {
    return this.count === this.size;
  }

  get bases(): number {
    return this.objects.count + this.templates.count;
  }

  /** As the cluster's object keeps it. */
  get baseCounts(): number {
    return baseCounts(this.objects.count, this.templates.count);
  }

  clear(): void {
    this.count = this.taken = 0;
    this.objects.count = this.templates.count = this.clustersBelow.count = 0;
  }

  /** Takes in what an object rests on, or its cluster, but for what is kept for it alone; false when that would be too much. */
  addBases(tables: Tables, object: number): boolean {
    const { objects, templates, clustersBelow } = this;
    const before = [objects.count, templates.count, clustersBelow.count];
    const { objectKind, objectBase } = tables;
    const from = objectKind[object] === Kind.MEMBER ? objectBase[object] : object;
    let fits = true;
    for (let i = 0, all = objectBases(tables, from); fits && i < all; i++) {
      const base = objectBaseAt(tables, from, i);
      // Without it the page takes less than with it.
      if (from === object && isKeptForOne(tables, base)) continue;
      fits = objects.add(base) && (objectKind[base] !== Kind.MEMBER || clustersBelow.add(objectBase[base]));
    }
    for (let i = 0, all = templateBases(tables, from); fits && i < all; i++)
      fits = templates.add(templateBaseAt(tables, from, i));
    if (fits && this.bases <= MAX_CLUSTER_BASES) return true;
    [objects.count, templates.count, clustersBelow.count] = before;
    return false;
  }
}
