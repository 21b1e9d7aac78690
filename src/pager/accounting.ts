import { Kind } from '../codec/kinds.js';
import { blockBytes } from '../store/arena.js';
import { MAX_OWNERS, OWNER_MASK, Super } from '../store/layout.js';
import type { Tables } from '../store/tables.js';
import { OWNER_STATS, OwnerStat } from '../store/volatile.js';
import type { EncodingCounts, OwnerUse } from './protocol.js';

const noCounts = (): EncodingCounts => ({
  same: 0,
  duplicate: 0,
  template: 0,
  delta: 0,
  zstd: 0,
  raw: 0,
  staged: 0,
});

const FIELD: Partial<Record<number, keyof EncodingCounts>> = {
  [Kind.SAME]: 'same',
  [Kind.STAGED]: 'staged',
  [Kind.RAW]: 'raw',
  [Kind.ZSTD]: 'zstd',
  [Kind.DELTA]: 'delta',
  [Kind.TEMPLATE_DELTA]: 'delta',
  [Kind.TEMPLATE]: 'template',
};

export interface StoreUse {
  usedSlots: number;
  foreignSlots: number;
  encodings: EncodingCounts;
  /** Arena bytes of the objects of each encoding; a duplicate has none of its own. */
  encodingBytes: EncodingCounts;
  owners: OwnerUse[];
}

/**
 * Counts slots by encoding and by owner. Reads the tables while the data loop changes them: what is counted is
 * close to some instant, which is all a status needs.
 */
export function countStore(tables: Tables): StoreUse {
  const { superblock, slotObject, slotOwner, objectKind, objectRefs, objectBase, objectLength } = tables;
  const encodings = noCounts();
  const encodingBytes = noCounts();
  const seen = new Uint8Array(superblock[Super.HIGH_OBJECT]);
  const slots = new Float64Array(MAX_OWNERS);
  const bytes = new Float64Array(MAX_OWNERS);
  let usedSlots = 0;
  const share = (object: number): number =>
    blockBytes(objectLength[object]) / Math.max(1, objectRefs[object]);
  for (let slot = 0; slot < superblock[Super.HIGH_SLOT]; slot++) {
    const object = slotObject[slot];
    if (object === 0) continue;
    const kind = objectKind[object];
    const owner = slotOwner[slot] & OWNER_MASK;
    usedSlots++;
    slots[owner]++;
    if (kind !== Kind.SAME && kind !== Kind.TEMPLATE) bytes[owner] += share(object);
    if (kind === Kind.DELTA) bytes[owner] += share(objectBase[object]) / Math.max(1, objectRefs[object]);
    const field = seen[object] === 1 && kind !== Kind.SAME ? 'duplicate' : FIELD[kind];
    seen[object] = 1;
    if (field === undefined) continue;
    encodings[field]++;
    if (field !== 'duplicate' && kind !== Kind.SAME) encodingBytes[field] += blockBytes(objectLength[object]);
  }
  const owners = [...tables.owners.entries()].map(([owner, id]) => ({
    owner,
    slots: slots[id],
    storedBytes: Math.round(bytes[id]),
  }));
  return { usedSlots, foreignSlots: slots[0], encodings, encodingBytes, owners };
}

/** What refinement made of an owner's pages since its window opened. */
export function refinedEncodings(ownerStats: Float64Array, owner: number): EncodingCounts {
  const counts = noCounts();
  const at = owner * OWNER_STATS + OwnerStat.KINDS;
  for (const [kind, field] of Object.entries(FIELD)) counts[field!] += ownerStats[at + Number(kind)];
  counts.duplicate = ownerStats[at];
  return counts;
}

/** Numbers of domains that an owner or an object still has. */
export function domainsInUse(tables: Tables): Set<number> {
  const used = new Set<number>();
  for (const [, owner] of tables.owners.entries()) used.add(tables.ownerDomains[owner]);
  for (let object = 1; object < tables.superblock[Super.HIGH_OBJECT]; object++) {
    if (tables.objectKind[object] !== Kind.FREE) used.add(tables.objectDomain[object]);
  }
  return used;
}
