import { anyInSwapCache, referencesOf, type References } from '../../memory/references.js';
import { byteTable } from '../../memory/page-table.js';
import type { Context } from '../context.js';
import type { Member } from '../sandboxes/member.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { pause } from '../windows/window.js';

/** Fewer are not worth two looks at everything. */
const WORTH_SLOTS = 256;
/** A fork that copied page tables before the first look has been reported after this time. */
const GRACE_MS = 300;

/** Slots claimed as the sandbox's alone that no page table showed when its processes were last looked at. */
function suspects(sandbox: Sandbox): number[] {
  const shown = byteTable();
  for (const { look } of sandbox.members.values()) look?.slots.forEach((_page, slot) => shown.set(slot, 1));
  const slots: number[] = [];
  sandbox.soleSlots.forEach((slot) => {
    if (shown.get(slot) === 0) slots.push(slot);
  });
  return slots;
}

/** What all its processes reach; null when one is gone. */
function reachOf(members: readonly Member[], swapType: number): References | null {
  const all: References = { slots: [], frames: [] };
  for (const { process } of members) {
    const found = referencesOf(process, swapType);
    if (found === null) return null;
    for (const slot of found.slots) all.slots.push(slot);
    for (const frame of found.frames) all.frames.push(frame);
  }
  return all;
}

/**
 * Frees slots of a waiting sandbox that hold pages nobody has any more: the page was written to or unmapped since, but
 * the kernel tells of free slots only when 512 of a cluster are free.
 *
 * A slot that was the sandbox's alone when it was written, and was not written since, is named by an entry of some process
 * that descends from the sandbox's, or belongs to a page of the swap cache that such an entry maps, or is free. So it is
 * free when none of these names it in two looks at every mapping, with no such page in the swap cache at the first. What
 * could have slipped through between: a page that left memory after it was seen present is named at the second look,
 * or was read back from the device, which the pager notes; a fork is reported, and so is what it forks in turn. When
 * anything of that kind happened, nothing is freed. Returns false when pages in the swap cache are in the way: they are to
 * go out first.
 */
export async function freeGarbage(context: Context, sandbox: Sandbox, signal: AbortSignal): Promise<boolean> {
  const { pager, registry, info, knowsLineage } = context;
  // Blocks behind zram have owners, slots of swap have not: see BlockClaims.
  const slots = info.tier === 'zram' ? [] : suspects(sandbox);
  if (slots.length < WORTH_SLOTS || !registry.refresh(sandbox) || !knowsLineage(sandbox)) return true;
  const members = [...sandbox.members.values()];
  const { forks } = sandbox;
  const sequence = await pager.watch(sandbox.id, Uint32Array.from(slots));
  const first = reachOf(members, info.swapType);
  if (first === null) return true;
  if (anyInSwapCache(first.frames)) return false;
  await pause(GRACE_MS, signal);
  const second = signal.aborted ? null : reachOf(members, info.swapType);
  if (second === null || !registry.refresh(sandbox) || !knowsLineage(sandbox)) return true;
  const same =
    members.length === sandbox.members.size && members.every((m) => sandbox.members.get(m.pid) === m);
  if (!same || sandbox.forks !== forks) return true;

  const reached = byteTable();
  for (const slot of first.slots) reached.set(slot, 1);
  for (const slot of second.slots) reached.set(slot, 1);
  const garbage = slots.filter((slot) => reached.get(slot) === 0);
  await pager.free(sandbox.id, sequence, Uint32Array.from(garbage));
  for (const slot of garbage) sandbox.soleSlots.set(slot, 0);
  return true;
}
