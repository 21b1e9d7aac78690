import { PAGE } from '../../native/libc.js';
import type { Look } from '../../memory/look.js';
import type { PageTable } from '../../memory/page-table.js';
import { NO_TEMPLATE_PAGE } from '../../pager/protocol.js';
import type { AddressMapper } from './address.js';
import type { Context } from '../context.js';
import type { Member } from '../sandboxes/member.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { settled } from '../windows/settle.js';

/** Pages a request: enough to make its cost small, few enough that other requests do not wait long for it. */
const BATCH_PAGES = 4096;
/** Pages that one of so many last tool phases used will be read again: the pager is to keep them quick to read. */
const SOON_PHASES = 4;

type Slots = PageTable<Uint32Array>;

/** Pages out in a look whose slot the pager has not accepted yet. */
export function unclaimed(slots: Slots, claimed: Slots): number {
  let count = 0;
  slots.forEach((page, slot) => {
    if (claimed.get(page) !== slot) count++;
  });
  return count;
}

/**
 * The claim rule: a page's slot is claimed when both looks show the same one, `first` before the writes had settled
 * and the sequence was read, `second` after. `take` refuses slots that are another sandbox's.
 */
export function claimable(
  first: Slots,
  second: Slots,
  claimed: Slots,
  take: (slot: number, page: number) => boolean,
): { pages: number[]; slots: number[] } {
  const pages: number[] = [];
  const slots: number[] = [];
  second.forEach((page, slot) => {
    if (first.get(page) !== slot || claimed.get(page) === slot) return;
    if (take(slot, page)) {
      pages.push(page);
      slots.push(slot);
    } else {
      // Somebody else's for as long as both show it: not asked again in this window.
      claimed.set(page, slot);
    }
  });
  return { pages, slots };
}

/** Template page of each of `pages` (ascending). */
export function templatePagesOf(
  look: Look,
  pages: readonly number[],
  map: AddressMapper | null,
): Uint32Array {
  const result = new Uint32Array(pages.length).fill(NO_TEMPLATE_PAGE);
  if (map === null) return result;
  let vma = 0;
  pages.forEach((page, i) => {
    while (vma < look.vmas.length && look.vmas[vma].end <= page * PAGE) vma++;
    if (vma < look.vmas.length) result[i] = map(look.vmas[vma], page);
  });
  return result;
}

/** Does another sandbox show a slot now? Each is looked at once, when first asked. */
export function othersShow({ registry, info }: Context): (tag: number, slot: number) => boolean {
  const shown = new Map<number, Set<number>>();
  return (tag, slot) => {
    let slots = shown.get(tag);
    if (slots === undefined) {
      shown.set(tag, (slots = new Set()));
      for (const member of registry.tagged(tag)?.members.values() ?? []) {
        const found = slots;
        member.peek(info.swapType)?.slots.forEach((_page, own) => found.add(own));
      }
    }
    return slots.has(slot);
  };
}

/**
 * Notes whose the slots are that the last looks at a sandbox's processes show, claimed or not: its tools are about to read
 * them. Slots that another sandbox's last look shows stay with that one.
 */
export function noteSlots(
  { owners, registry }: Pick<Context, 'owners' | 'registry'>,
  sandbox: Sandbox,
): void {
  const shows = (other: number, slot: number): boolean => {
    const page = owners.pageOf(slot);
    const members = registry.tagged(other)?.members.values() ?? [];
    for (const { look } of members) if (look?.slots.get(page) === slot) return true;
    return false;
  };
  for (const { look } of sandbox.members.values())
    look?.slots.forEach((page, slot) => owners.take(slot, sandbox.tag, page, shows));
}

/** Pages of a process, ascending, each by the number of its slot, or of its block where {@link Claim} says so. */
interface Claimable {
  pages: readonly number[];
  slots: readonly number[];
  sequence: number;
  blocks?: boolean;
}

/** The indexes of pages that are claimed together: they differ neither in whose they were nor in how soon they will be wanted. */
function byKind(
  member: Member,
  pages: readonly number[],
): { sole: boolean; apart: boolean; chosen: number[] }[] {
  const kinds = [true, false].flatMap((sole) =>
    [false, true].map((apart) => ({ sole, apart, chosen: [] as number[] })),
  );
  pages.forEach((page, i) => {
    const sole = member.wasSole(page);
    const apart = member.usage.isHot(page, SOON_PHASES);
    kinds.find((kind) => kind.sole === sole && kind.apart === apart)!.chosen.push(i);
  });
  return kinds;
}

/** Tells the pager whose these are; `accepted` is told of those that it took. Their template pages are found by `look`. */
export async function claimPages(
  { templates, pager }: Context,
  sandbox: Sandbox,
  member: Member,
  look: Look,
  { pages, slots, sequence, blocks }: Claimable,
  signal: AbortSignal,
  accepted: (index: number, sole: boolean) => void,
): Promise<void> {
  const base = templates.baseFor(sandbox);
  const templatePages = templatePagesOf(look, pages, base?.addresses.mapper(look.vmas) ?? null);
  const { id: owner, domain } = sandbox;
  const common = { owner, domain, pack: base?.pack ?? null, sequence, blocks };
  for (const { sole, apart, chosen } of byKind(member, pages)) {
    for (let at = 0; at < chosen.length && !signal.aborted; at += BATCH_PAGES) {
      const batch = chosen.slice(at, at + BATCH_PAGES);
      const { stale } = await pager.claim({
        ...common,
        apart,
        soleSince: sole ? member.soleSince : null,
        slots: Uint32Array.from(batch, (i) => slots[i]),
        templatePages: Uint32Array.from(batch, (i) => templatePages[i]),
      });
      const refused = new Set(stale);
      batch.forEach((i, at) => {
        if (!refused.has(at)) accepted(i, sole);
      });
    }
  }
}

async function claimMember(
  context: Context,
  sandbox: Sandbox,
  member: Member,
  looks: { first: Look; second: Look },
  sequence: number,
  signal: AbortSignal,
): Promise<void> {
  const { owners, pager, info } = context;
  const shows = othersShow(context);
  const shown = looks.second.slots;
  const second = info.tier === 'zswap' ? await member.onDevice(pager, shown) : shown;
  const { pages, slots } = claimable(looks.first.slots, second, member.claimed, (slot, page) =>
    owners.take(slot, sandbox.tag, page, shows),
  );
  await claimPages(context, sandbox, member, looks.second, { pages, slots, sequence }, signal, (i, sole) => {
    member.claimed.set(pages[i], slots[i]);
    if (sole) sandbox.soleSlots.set(slots[i], 1);
  });
}

export type Looks = ReadonlyMap<Member, Look>;

/**
 * The first look of the claim rule at each living process of a sandbox: `everywhere`, or only where the last one found pages, which costs
 * nothing for what is the file's of guest memory that a machine maps.
 */
export function lookFirst({ info }: Context, sandbox: Sandbox, everywhere = true): Looks {
  const looks = new Map<Member, Look>();
  for (const member of sandbox.members.values()) {
    const look = everywhere ? member.lookAgain(info.swapType) : member.lookBack(info.swapType);
    if (look !== null) looks.set(member, look);
  }
  return looks;
}

const pending = (looks: Looks): number =>
  [...looks.keys()].reduce(
    (sum, member) => sum + (member.look === null ? 0 : unclaimed(member.look.slots, member.claimed)),
    0,
  );

/**
 * Claims what both `first` and a second look show; the device has settled in between. Returns how many pages are still
 * to be claimed, because they went out or were written again meanwhile. Stops early on the signal.
 */
export async function claimSettled(
  context: Context,
  sandbox: Sandbox,
  first: Looks,
  signal: AbortSignal,
): Promise<number> {
  const { sequence } = await context.pager.request('sequence', {});
  for (const [member, look] of first) {
    if (signal.aborted) break;
    const second = member.lookBack(context.info.swapType);
    if (second !== null)
      await claimMember(context, sandbox, member, { first: look, second }, sequence, signal);
  }
  return pending(first);
}

/**
 * Tells the pager whose the slots of a sandbox are, once the device has settled. Returns what is left as
 * {@link claimSettled} does; -1 when the sandbox has no process left.
 */
export async function claimPass(
  context: Context,
  sandbox: Sandbox,
  signal: AbortSignal,
  everywhere = true,
): Promise<number> {
  const first = lookFirst(context, sandbox, everywhere);
  if (first.size === 0) return -1;
  const left = pending(first);
  if (left === 0 || !(await settled(context.info.device, signal))) return left;
  return claimSettled(context, sandbox, first, signal);
}
