import { awaitsRefinement } from '../codec/kinds.js';
import { DEPTH } from './chains.js';
import { Super } from './layout.js';
import { objectBaseAt, objectBases } from './references.js';
import type { Store } from './store.js';
import type { Tables } from './tables.js';
import type { Volatile } from './volatile.js';

/**
 * Rebuilds all that is not in the memory file: counts are taken from the slots, which alone say what is alive;
 * free lists, arena and hash index follow. Objects that no slot or living delta names are what a crash interrupted:
 * they go. Sketches are not rebuilt: pages stored before the restart can be read and shared as duplicates, but are
 * no candidates for new deltas.
 */
export function recover(store: Store, shared: Volatile): { slots: number; objects: number } {
  const { tables } = store;
  const highObject = tables.superblock[Super.HIGH_OBJECT];
  const highSlot = tables.superblock[Super.HIGH_SLOT];
  shared.hashes.reset();
  shared.sketches.reset();
  shared.counters.fill(0);
  // The other parts are new with the process, and zero; filling them would only take memory.
  tables.refs.clearAll(highObject);
  tables.slotUse.recount(highSlot);
  tables.objectUse.recount(highObject);
  let slots = 0;
  let sequence = tables.superblock[Super.SEQUENCE];
  for (let slot = 0; slot < highSlot; slot++) {
    const object = tables.slotObject[slot];
    // A crash between a slot's own sequence and the global one must not let the number be given out twice.
    if (((tables.slotSequence[slot] - sequence) | 0) > 0) sequence = tables.slotSequence[slot];
    if (object === 0) continue;
    tables.refs.add(object);
    tables.slotUse.take(slot);
    // The queue of pages to refine is gone: they must be claimed anew.
    if (awaitsRefinement(tables.objectKind[object])) tables.slotOwner[slot] = 0;
    slots++;
  }
  tables.superblock[Super.SEQUENCE] = sequence;
  countBases(tables, highObject);
  let objects = 0;
  for (let object = 1; object < highObject; object++) {
    if (tables.refs.of(object) > 0) objects++;
    store.objects.readmit(object);
  }
  store.arena.finishRecovery();
  store.dictionaries.finishRecovery();
  return { slots, objects };
}

/** Counts the bases of living objects: in each round those of objects that the round before has found alive. */
function countBases(tables: Tables, highObject: number): void {
  const { refs } = tables;
  const counted = new Uint8Array(highObject);
  // Every object of a chain, and the page at its end, may be a cluster's member: two steps instead of one.
  for (let round = 0; round < 2 * DEPTH + 1; round++) {
    for (let object = 1; object < highObject; object++) {
      if (refs.of(object) === 0 || counted[object] === 1) continue;
      counted[object] = 1;
      const bases = objectBases(tables, object);
      for (let i = 0; i < bases; i++) refs.add(objectBaseAt(tables, object, i));
    }
  }
}
