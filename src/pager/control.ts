import { AgentZipError } from '../errors.js';
import { MAX_DOMAINS, OWNER_MASK, Super } from '../store/layout.js';
import { packResidentBytes } from '../store/packs.js';
import type { Tables } from '../store/tables.js';
import { Counter, OWNER_STATS, OwnerStat } from '../store/volatile.js';
import { PAGE } from '../native/libc.js';
import { countStore, domainsInUse, refinedEncodings } from './accounting.js';
import type { Engine } from './engine.js';
import { foreignSlotHandlers } from './swap/foreign-slots.js';
import type { Op, PagerInfo, PagerStatus, Requests } from './protocol.js';

type Handler<O extends Op> = (
  request: Requests[O]['request'],
  tail: Uint8Array,
) => Promise<Requests[O]['reply']> | Requests[O]['reply'];
export type Handlers = { [O in Op]: Handler<O> };

/** Those that are about slots. */
export type SlotHandlers = Pick<
  Handlers,
  'writtenSince' | 'expect' | 'readLog' | 'claim' | 'watch' | 'free' | 'doubtSole'
>;

const refuse = (request: Op, reason: string): AgentZipError =>
  new AgentZipError('AZ_PAGER_REFUSED', { request, reason });

/** A read that zswap answers does not reach the pager: what does is no measure of what tools wait for. */
function hiddenReads(): never {
  throw refuse('readLog', 'zswap answers reads before the pager does');
}

/** What the pager does as a whole. */
export interface Deeds {
  drain(): Promise<void>;
  replace(successor: Requests['replace']['request']): Promise<void>;
  changeTier(request: Requests['changeTier']['request']): Promise<void>;
  /** Resolves when no tier is being changed. */
  settled(): Promise<void>;
  standbyPid(): number | null;
}

/** What the pager answers to each request of its socket. */
export function createHandlers(engine: Engine, info: PagerInfo, deeds: Deeds): Handlers {
  const { tables, shared, queue } = engine;
  const ownerOf = (name: string): number => tables.owners.find(name);
  return {
    ...slotHandlersOf(info.tier, engine),
    hello: async () => {
      await deeds.settled();
      return info;
    },
    deviceLogs: () => ({ pid: process.pid, reads: engine.readLogFd, writes: engine.writeLogFd }),
    sequence: () => ({ sequence: Atomics.load(tables.superblock, Super.SEQUENCE) }),
    async loadPack({ path }) {
      const mapping = await engine.loadPack(path);
      return {
        pack: mapping.pack,
        pages: mapping.sections.map[1] / 4,
        distinctPages: mapping.distinct,
      };
    },
    async unloadPack({ pack }) {
      if (!(await engine.unloadPack(pack))) throw refuse('unloadPack', `pages still rest on pack ${pack}`);
      return {};
    },
    openWindow({ owner, endsInMs, encoding }) {
      // An owner without claims has nothing to refine; its first claim opens its queue.
      const id = register(engine, owner, null);
      shared.ownerStats.fill(0, id * OWNER_STATS, (id + 1) * OWNER_STATS);
      queue.open(id, endsInMs ?? null, encoding);
      return {};
    },
    async closeWindow({ owner }) {
      const id = ownerOf(owner);
      if (id === 0) throw refuse('closeWindow', `owner ${owner} is not known`);
      await queue.close(id);
      await engine.request({ op: 'flush' });
      const at = id * OWNER_STATS;
      return {
        pages: shared.ownerStats[at + OwnerStat.PAGES],
        bytesIn: shared.ownerStats[at + OwnerStat.PAGES] * PAGE,
        bytesOut: shared.ownerStats[at + OwnerStat.BYTES_OUT],
        cpuMs: shared.ownerStats[at + OwnerStat.CPU_MS],
        misfits: shared.ownerStats[at + OwnerStat.MISFITS],
        deltas: {
          pages: shared.ownerStats[at + OwnerStat.DELTAS],
          bytes: shared.ownerStats[at + OwnerStat.DELTA_BYTES],
        },
        remaining: queue.remaining(id),
        encodings: refinedEncodings(shared.ownerStats, id),
        times: { ...queue.times(id) },
      };
    },
    async forget({ owner, ended }) {
      const id = ownerOf(owner);
      if (id === 0) return {};
      await queue.forget(id);
      await engine.request({ op: 'forget', owner: id, ended: ended === true });
      // In this order: a number that is free must not have the domain of its last owner, also after a crash.
      tables.ownerDomains[id] = 0;
      tables.owners.remove(id);
      return {};
    },
    status: () => statusOf(engine, info.takeovers, deeds.standbyPid()),
    async replace(successor) {
      await deeds.replace(successor);
      return {};
    },
    async changeTier(request) {
      await deeds.changeTier(request);
      return {};
    },
    async drain() {
      await deeds.drain();
      return {};
    },
  };
}

/** Those that what stands before the device decides on. */
export function slotHandlersOf(tier: PagerInfo['tier'], engine: Engine): SlotHandlers {
  const own = slotHandlers(engine);
  if (tier === 'zram') return foreignSlotHandlers(own);
  return tier === 'zswap' ? { ...own, readLog: hiddenReads } : own;
}

function slotHandlers(engine: Engine): SlotHandlers {
  const { tables, queue } = engine;
  return {
    writtenSince: ({ sequence }, tail) => ({ bitmap: writtenSince(tables, sequence, tail) }),
    async expect(_request, tail) {
      await engine.request({ op: 'expect', slots: slotsOf(tail).filter((slot) => slot < tables.slots) });
      return {};
    },
    readLog: () => ({ pid: process.pid, fd: engine.readLogFd }),
    async claim(request, tail) {
      const words = new Uint32Array(tail.buffer, tail.byteOffset, Math.floor(tail.byteLength / 4));
      const count = words.length / 2;
      if (!Number.isInteger(count)) throw refuse('claim', 'slots and template pages differ in number');
      const owner = register(engine, request.owner, request.domain);
      const slots = words.slice(0, count);
      const { staged, stale } = await engine.request({
        op: 'claim',
        owner,
        sequence: request.sequence,
        soleSince: request.soleSince,
        apart: request.apart === true,
        slots,
      });
      const pick = (from: number): Uint32Array => staged!.map((index) => words[from + index]);
      queue.add(owner, tables.ownerDomains[owner], request.pack ?? 0, pick(0), pick(count));
      return { stale: [...stale!] };
    },
    async watch({ owner }, tail) {
      const { sequence } = await engine.request({
        op: 'watch',
        owner: tables.owners.find(owner),
        slots: slotsOf(tail),
      });
      return { sequence: sequence! };
    },
    async free({ owner, sequence }, tail) {
      const slots = slotsOf(tail);
      const { freed } = await engine.request({
        op: 'free',
        owner: tables.owners.find(owner),
        sequence,
        slots,
      });
      return { freed: freed! };
    },
    async doubtSole() {
      await engine.request({ op: 'doubtSole' });
      return {};
    },
  };
}

const slotsOf = (tail: Uint8Array): Uint32Array =>
  new Uint32Array(tail.buffer, tail.byteOffset, Math.floor(tail.byteLength / 4)).slice();

/** See Requests.writtenSince. */
function writtenSince(tables: Tables, sequence: number, tail: Uint8Array): string {
  const slots = slotsOf(tail);
  const bitmap = Buffer.alloc(Math.ceil(slots.length / 8));
  slots.forEach((slot, i) => {
    const later = slot < tables.slots && ((tables.slotSequence[slot] - sequence) | 0) > 0;
    if (later) bitmap[i >> 3] |= 1 << (i & 7);
  });
  return bitmap.toString('base64');
}

/** Number of an owner; `domain` null keeps the one it has. */
function register(engine: Engine, owner: string, domain: string | null): number {
  const { tables } = engine;
  const id = tables.owners.add(owner);
  if (id === 0) throw refuse('claim', `too many sandboxes, or name too long: ${owner.slice(0, 80)}`);
  if (domain === null) return id;
  let domainId = tables.domains.add(domain);
  if (domainId === 0 && tables.domains.size >= MAX_DOMAINS - 1) {
    const used = domainsInUse(tables);
    for (const [, known] of [...tables.domains.entries()]) if (!used.has(known)) tables.domains.remove(known);
    domainId = tables.domains.add(domain);
  }
  if (domainId === 0)
    throw refuse('claim', `too many trust domains, or name too long: ${domain.slice(0, 80)}`);
  const current = tables.ownerDomains[id];
  if (current !== 0 && current !== domainId)
    throw refuse('claim', `sandbox ${owner} is in another trust domain`);
  tables.ownerDomains[id] = domainId;
  return id;
}

function statusOf(engine: Engine, takeovers: number, standbyPid: number | null): PagerStatus {
  const { tables, shared } = engine;
  const packs = [...engine.packs.values()].map((mapping) => ({
    pack: mapping.pack,
    residentBytes: packResidentBytes(mapping),
  }));
  const use = countStore(tables);
  return {
    ...use,
    poolBytes: engine.poolBytes,
    store: engine.storeMemory(use.usedSlots),
    baseBytes: packs.reduce((sum, { residentBytes }) => sum + residentBytes, 0),
    reads: shared.counters[Counter.READS],
    writes: shared.counters[Counter.WRITES],
    discards: shared.counters[Counter.DISCARDS],
    freedSlots: shared.counters[Counter.FREED],
    refusedWrites: shared.counters[Counter.REFUSED],
    corruptPages: shared.counters[Counter.CORRUPT],
    lastCorrupt: shared.counters[Counter.CORRUPT] > 0 ? lastCorrupt(engine) : null,
    storeLimitBytes: tables.mapping.geometry.arenaBytes,
    sequence: tables.superblock[Super.SEQUENCE],
    takeovers,
    standbyPid,
    packs,
  };
}

function lastCorrupt({ tables, shared }: Engine): { slot: number; owner: string | null } {
  const slot = shared.counters[Counter.CORRUPT_SLOT];
  const owner = tables.slotOwner[slot] & OWNER_MASK;
  return { slot, owner: owner === 0 ? null : tables.owners.name(owner) };
}
