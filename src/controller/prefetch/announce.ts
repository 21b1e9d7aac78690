import { pagesOf, type Range } from '../../memory/restore.js';
import type { Pager } from '../../pager/client.js';
import type { Member } from '../sandboxes/member.js';

/**
 * Tells the pager which slots a process's pages are about to be read from by us: they give way to those that a tool waits
 * for, and are not taken for such. For `announce` of memory/restore.
 */
export function announcer(
  pager: Pick<Pager, 'expect'>,
  member: Pick<Member, 'look'>,
): (vector: readonly Range[]) => Promise<void> {
  return async (vector) => {
    const slots = pagesOf(vector)
      .map((page) => member.look?.slots.get(page) ?? 0)
      .filter((slot) => slot !== 0);
    if (slots.length > 0) await pager.expect(Uint32Array.from(slots));
  };
}
