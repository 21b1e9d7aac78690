import { awaitsRefinement, hasBlock, Kind, namesObject } from '../codec/kinds.js';
import { blockBytes } from '../store/size-classes.js';
import { residentBytes } from '../native/memory.js';
import { layout, MAX_OWNERS, OWNER_MASK, Super, type Section } from '../store/layout.js';
import type { Tables } from '../store/tables.js';
import { OWNER_STATS, OwnerStat, type Volatile } from '../store/volatile.js';
import type { EncodingCounts, OwnerUse, StoreMemory } from './protocol.js';

const noCounts = (): EncodingCounts => ({
  same: 0,
  duplicate: 0,
  template: 0,
  delta: 0,
  sparse: 0,
  dictionary: 0,
  clustered: 0,
  zstd: 0,
  raw: 0,
  staged: 0,
});

const FIELD: Partial<Record<number, keyof EncodingCounts>> = {
  [Kind.SAME]: 'same',
  [Kind.STAGED]: 'staged',
  [Kind.QUICK]: 'staged',
  [Kind.RAW]: 'raw',
  [Kind.ZSTD]: 'zstd',
  [Kind.DELTA]: 'delta',
  [Kind.TEMPLATE_DELTA]: 'delta',
  [Kind.TEMPLATE_RUN]: 'delta',
  [Kind.PAIR]: 'delta',
  [Kind.TEMPLATE_PAIR]: 'delta',
  [Kind.SPARSE]: 'sparse',
  [Kind.TEMPLATE_SPARSE]: 'sparse',
  [Kind.DICTIONARY]: 'dictionary',
  [Kind.MEMBER]: 'clustered',
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
  const { superblock, slotObject, slotOwner, objectKind, refs, objectBase, objectLength } = tables;
  const { slotUse } = tables;
  const encodings = noCounts();
  const encodingBytes = noCounts();
  const seen = new Uint8Array(superblock[Super.HIGH_OBJECT]);
  const slots = new Float64Array(MAX_OWNERS);
  const staged = new Float64Array(MAX_OWNERS);
  const bytes = new Float64Array(MAX_OWNERS);
  let usedSlots = 0;
  const share = (object: number): number => blockBytes(objectLength[object]) / Math.max(1, refs.of(object));
  for (let slot = slotUse.next(0); slot < superblock[Super.HIGH_SLOT]; slot = slotUse.next(slot + 1)) {
    const object = slotObject[slot];
    if (object === 0) continue;
    const kind = objectKind[object];
    const owner = slotOwner[slot] & OWNER_MASK;
    usedSlots++;
    slots[owner]++;
    if (awaitsRefinement(kind)) staged[owner]++;
    if (hasBlock(kind)) bytes[owner] += share(object);
    if (namesObject(kind)) bytes[owner] += share(objectBase[object]) / Math.max(1, refs.of(object));
    const again = seen[object] === 1 && kind !== Kind.SAME && kind !== Kind.TEMPLATE;
    const field = again ? 'duplicate' : FIELD[kind];
    seen[object] = 1;
    if (field === undefined) continue;
    encodings[field]++;
    if (field === 'duplicate') continue;
    if (hasBlock(kind)) encodingBytes[field] += blockBytes(objectLength[object]);
    else if (kind === Kind.MEMBER) encodingBytes[field] += share(objectBase[object]);
  }
  const owners = [...tables.owners.entries()].map(([owner, id]) => ({
    owner,
    slots: slots[id],
    stagedSlots: staged[id],
    storedBytes: Math.round(bytes[id]),
  }));
  return { usedSlots, foreignSlots: slots[0], encodings, encodingBytes, owners };
}

/** Entries of a section that were ever used: what lies behind them is a hole. Null: all of the section counts. */
function entriesOf(
  section: Section,
  { superblock, slots, objects }: Tables,
): [used: number, of: number] | null {
  if (section.startsWith('slot')) return [superblock[Super.HIGH_SLOT], slots];
  if (section.startsWith('object')) return [superblock[Super.HIGH_OBJECT], objects];
  return null;
}

/** `files`: bytes of memory that the store's and the index's memory files take. */
export function storeMemory(
  tables: Tables,
  { hashes, sketches }: Volatile,
  usedSlots: number,
  files: { store: number; index: number },
): StoreMemory {
  const { superblock, objectKind, objectLength, objectUse, mapping } = tables;
  const memory = {
    ...{ arenaHeldBytes: 0, arenaUsedBytes: 0, tableHeldBytes: 0, tableUsedBytes: 0 },
    indexHeldBytes: files.index,
    indexUsedBytes: hashes.usedBytes + sketches.used().byteLength,
  };
  let objects = 0;
  const high = superblock[Super.HIGH_OBJECT];
  for (let object = objectUse.next(0); object < high; object = objectUse.next(object + 1)) {
    const kind = objectKind[object];
    if (kind === Kind.FREE) continue;
    objects++;
    if (hasBlock(kind)) memory.arenaUsedBytes += blockBytes(objectLength[object]);
  }
  for (const [name, [offset, bytes]] of Object.entries(layout(mapping.geometry).sections)) {
    if (name === 'arena') continue;
    const entries = entriesOf(name as Section, tables);
    const width = entries === null ? 0 : bytes / entries[1];
    const reached = entries === null ? bytes : Math.ceil(entries[0] * width);
    const held = residentBytes(mapping.address + offset, reached);
    memory.tableHeldBytes += held;
    // A column may be a hole where others are not.
    memory.tableUsedBytes += Math.min(held, width * (name.startsWith('slot') ? usedSlots : objects));
  }
  memory.arenaHeldBytes = Math.max(0, files.store - memory.tableHeldBytes);
  return memory;
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
  const { objectUse, superblock } = tables;
  const high = superblock[Super.HIGH_OBJECT];
  for (let object = objectUse.next(0); object < high; object = objectUse.next(object + 1)) {
    if (tables.objectKind[object] !== Kind.FREE) used.add(tables.objectDomain[object]);
  }
  return used;
}
