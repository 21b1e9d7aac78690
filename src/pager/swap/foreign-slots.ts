import { AgentZipError } from '../../errors.js';
import { Super } from '../../store/layout.js';
import type { Engine } from '../engine.js';
import type { SlotHandlers } from '../control.js';

/**
 * What is said of slots when those of swap are not those of the store, because zram gives blocks numbers of its own. All of it
 * is passed over: no block has an owner, so none is shared with another or freed while something rests on it.
 */
export const foreignSlotHandlers = ({ tables }: Engine): SlotHandlers => ({
  writtenSince: (_request, tail) => ({
    bitmap: Buffer.alloc(Math.ceil(tail.byteLength / 4 / 8)).toString('base64'),
  }),
  expect: () => ({}),
  readLog: () => {
    const reason = 'zram is between swap and the pager';
    throw new AgentZipError('AZ_PAGER_REFUSED', { request: 'readLog', reason });
  },
  claim: () => ({ accepted: 0, stale: 0 }),
  watch: () => ({ sequence: Atomics.load(tables.superblock, Super.SEQUENCE) }),
  free: () => ({ freed: 0 }),
  doubtSole: () => ({}),
});
