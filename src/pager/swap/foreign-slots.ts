import { AgentZipError } from '../../errors.js';
import type { SlotHandlers } from '../control.js';

/**
 * What is said of slots when those of swap are not those of the store, because zram gives blocks numbers of its own. What is said of
 * slots of swap is passed over; what is said of blocks, by somebody who has found out whose they are, holds. A block that nobody
 * has claimed so is nobody's: never shared, and never freed while something may rest on it.
 */
export const foreignSlotHandlers = (store: SlotHandlers): SlotHandlers => ({
  writtenSince: (_request, tail) => ({
    bitmap: Buffer.alloc(Math.ceil(tail.byteLength / 4 / 8)).toString('base64'),
  }),
  expect: () => ({}),
  readLog: () => {
    const reason = 'zram is between swap and the pager';
    throw new AgentZipError('AZ_PAGER_REFUSED', { request: 'readLog', reason });
  },
  claim: (request, tail) => (request.blocks === true ? store.claim(request, tail) : { stale: [] }),
  // The first sequence of all: nothing was written before it, so nothing may be freed by it.
  watch: (request, tail) => (request.blocks === true ? store.watch(request, tail) : { sequence: 0 }),
  free: (request, tail) => (request.blocks === true ? store.free(request, tail) : { freed: 0 }),
  doubtSole: store.doubtSole,
});
