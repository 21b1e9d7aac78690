import type { OwnerEncoding } from '../store/encoding.js';
import type { FrontEndName } from './requests/channel.js';
import type { TierName, ZswapOptions } from './swap/tier.js';

/**
 * Number of what is said here, and of what a pager tells its standby (PagerOptions, Succession, lifeline): raise it with a change
 * that an older build would not understand. `hello` and `drain` never change: whatever runs can be asked who it is, and drained.
 */
export const PROTOCOL = 3;

/**
 * What the controller and the pager say to each other over a Unix socket. A message is a 12-byte header (three
 * little-endian u32: bytes of JSON, bytes of binary tail, request id), JSON, then the tail. Requests carry `op`;
 * replies carry the same id and either `ok` or `error`.
 */
export interface PagerInfo {
  pid: number;
  version: string;
  /** {@link PROTOCOL} of its build, and the format of its store. */
  protocol: number;
  storeFormat: number;
  /** Block device that serves as swap, e.g. `/dev/loop3`. */
  device: string;
  /** How the kernel reaches the pager, and why this way. */
  /** Null: there is no device. */
  frontEnd: FrontEndName | null;
  frontEndReason: string;
  /** What stands before the pager's device; with zram, swap slots are not those of the store. */
  tier: TierName;
  /** Swap type as pagemap shows it (bits 0–4). {@link NO_SWAP_TYPE}: there is no swap of ours. */
  swapType: number;
  slots: number;
  /** How often the device has passed to a standby. */
  takeovers: number;
}

/** A swap type that no device has: 5 bits, of which the kernel keeps the highest values for itself (swapfile.h). */
export const NO_SWAP_TYPE = 31;

export interface PackInfo {
  /** Number of the pack within this pager; names it in claims. */
  pack: number;
  pages: number;
  distinctPages: number;
}

/** Slots a sandbox owns, as the ledger saw them. Both arrays have one entry a page. */
export interface Claim {
  /** Owner: the sandbox. Slots of one owner can be forgotten together. */
  owner: string;
  /** Trust domain: objects are shared inside it only. */
  domain: string;
  /** Pack the sandbox started from, or null. */
  pack: number | null;
  /**
   * Write sequence the pager gave (`sequence`) after the pages' writes had settled and before the ledger read the
   * slots a second time. A slot written later is refused as stale: its page may be somebody else's by now.
   */
  sequence: number;
  /**
   * These pages were this owner's alone when they went out: those written after this sequence can be nobody's but its own
   * and its descendants'. Null: not known.
   */
  soleSince: number | null;
  /**
   * The slots are blocks of the pager's own device, and not slots of swap. Where another device is before the pager's, whoever does
   * not say so is passed over.
   */
  blocks?: boolean;
  /** They will be wanted soon and must be quick to read: they are not put together with other pages. Default: they may be. */
  apart?: boolean;
  slots: Uint32Array;
  /** Page number in the pack's template address space, or NO_TEMPLATE_PAGE. */
  templatePages: Uint32Array;
}
export const NO_TEMPLATE_PAGE = 0xffffffff;

export interface ClaimResult {
  /** Which of the slots were refused, by their places in the claim; ascending. */
  stale: number[];
}

/** Slots by how their page is stored. */
export interface EncodingCounts {
  same: number;
  /** A further slot of an object that another slot already names. */
  duplicate: number;
  /** Equal to a page of the template. */
  template: number;
  delta: number;
  /** A base's page with a few words changed. */
  sparse: number;
  /** With a dictionary. */
  dictionary: number;
  /** Together with others. */
  clustered: number;
  zstd: number;
  raw: number;
  /** Not refined yet: as written, or for want of time or room compressed by themselves. */
  staged: number;
}

/** Moments of work for one owner since its window opened, on the host's monotonic clock, ms; null: there was none. */
export interface RefineTimes {
  /** The first page was given to a worker. */
  startedAtMs: number | null;
  /** Nothing that had been claimed was left to refine; what follows is pages put together. */
  refinedAtMs: number | null;
  /** No worker had anything of it in hand any more. */
  endedAtMs: number | null;
}

/** What refinement did for one owner since its window opened. */
export interface RefineResult {
  pages: number;
  bytesIn: number;
  bytesOut: number;
  cpuMs: number;
  /** Pages stored without any base although the template has one at their address. */
  misfits: number;
  /** Pages stored against a base, and the bytes they take. */
  deltas: { pages: number; bytes: number };
  /** Claimed pages still staged. */
  remaining: number;
  encodings: EncodingCounts;
  times: RefineTimes;
}

export interface OwnerUse {
  owner: string;
  slots: number;
  /** Of these, not refined yet. */
  stagedSlots: number;
  /** Payload bytes, each object's divided among the slots that name it. */
  storedBytes: number;
}

/** Where the store's memory goes; `held` bytes are resident, the others are in use. */
export interface StoreMemory {
  /** Segments of page data, and the blocks in them that hold an object. */
  arenaHeldBytes: number;
  arenaUsedBytes: number;
  /** Columns of slots and objects, names, superblock: resident pages, and the entries in use. */
  tableHeldBytes: number;
  tableUsedBytes: number;
  /** Hash and sketch index with rings and counters, and the two indexes at the size they have grown to. */
  indexHeldBytes: number;
  indexUsedBytes: number;
}

export interface PagerStatus {
  poolBytes: number;
  baseBytes: number;
  store: StoreMemory;
  usedSlots: number;
  /** Slots in use that no sandbox has claimed. */
  foreignSlots: number;
  encodings: EncodingCounts;
  /** Arena bytes of the objects of each encoding; a duplicate has none of its own. */
  encodingBytes: EncodingCounts;
  reads: number;
  writes: number;
  discards: number;
  /** Slots freed before the kernel said that they are free, so far. */
  freedSlots: number;
  /** Writes that found the store full, so far: the kernel keeps those pages in memory. */
  refusedWrites: number;
  corruptPages: number;
  /** The last of them: its slot, and the sandbox that owns it. */
  lastCorrupt: { slot: number; owner: string | null } | null;
  /** Most bytes of page data that the store takes. */
  storeLimitBytes: number;
  sequence: number;
  /** How often the device has passed to a standby. Counters begin anew with each. */
  takeovers: number;
  /** The standby that could take over now. */
  standbyPid: number | null;
  packs: { pack: number; residentBytes: number }[];
  owners: OwnerUse[];
}

/** Reads of slots that nobody had announced: demand faults, the kernel's read-ahead around them, and swapoff. */
export interface DemandReads {
  /** Told of each slot read since the last call, in order. */
  drain(visit: (slot: number) => void): void;
  /** Reads that were not told of: too many came between two calls. */
  readonly lost: number;
  close(): void;
}

/** Blocks of the pager's device as they are read and written. A block is in its log before the kernel has its answer. */
export interface DeviceLogs {
  readonly reads: DemandReads;
  readonly writes: DemandReads;
}

/** The reason of AZ_PAGER_REFUSED from a pager that is older than what it is asked for. */
export const NO_SUCH_REQUEST = 'no such request';

export interface Requests {
  hello: { request: object; reply: PagerInfo };
  sequence: { request: object; reply: { sequence: number } };
  /** Which slots (binary tail, u32 each) were written after `sequence`: a bitmap, lowest bit first, in base64. */
  writtenSince: { request: { sequence: number }; reply: { bitmap: string } };
  /**
   * Slots (binary tail, u32 each) that are about to be read by a prefetch: reads that a tool waits for go first, and are told
   * apart by it. Holds for one read of each, and for two seconds.
   */
  expect: { request: object; reply: object };
  /** Descriptor, in the pager, of the log of reads that nobody had announced. See {@link DemandReads}. */
  readLog: { request: object; reply: { pid: number; fd: number } };
  /** Descriptors of the logs of what is read from and written to the device, by blocks; with the tier zram alone. See {@link DeviceLogs}. */
  deviceLogs: { request: object; reply: { pid: number; reads: number; writes: number } };
  loadPack: { request: { path: string }; reply: PackInfo };
  unloadPack: { request: { pack: number }; reply: object };
  claim: { request: Omit<Claim, 'slots' | 'templatePages'>; reply: ClaimResult };
  /**
   * Refine this owner's staged pages from now on, in the order they were claimed. `endsInMs`: when its window will
   * probably end; of several those that end soon come first. `encoding`: how its pages are stored from now on; default: as
   * the pager was started.
   */
  openWindow: { request: { owner: string; endsInMs?: number; encoding?: OwnerEncoding }; reply: object };
  /** Stop within the page in hand. */
  closeWindow: { request: { owner: string }; reply: RefineResult };
  /**
   * The owner is gone: its slots belong to nobody until they are discarded or overwritten. `ended`: so are all
   * processes that descend from it, so that slots that were its alone can be freed at once.
   */
  forget: { request: { owner: string; ended: boolean }; reply: object };
  /**
   * Frees slots (binary tail, u32 each) that nobody has any more, in two steps: `watch` before the page tables are looked
   * at, `free` after. Slots that were read or written in between, or are not claimed as sole, stay.
   */
  watch: { request: { owner: string; blocks?: boolean }; reply: { sequence: number } };
  free: { request: { owner: string; sequence: number; blocks?: boolean }; reply: { freed: number } };
  /** The controller is new: what its predecessor knew of who alone has which slot counts no longer. */
  doubtSole: { request: object; reply: object };
  status: { request: object; reply: PagerStatus };
  /**
   * Give the device to a pager of another build, of the same protocol and store format: `command` starts one as a standby,
   * and when it is ready the pager ends between two requests of the kernel. Answered by the new one. Refused when it does not
   * get ready; then all is as it was.
   */
  replace: { request: { version: string; command: string[] }; reply: object };
  /**
   * Put another tier before the device: pages everything in, and swap is turned on anew; whatever was claimed is nobody's any more.
   * A tier that can not be had leaves the one before, or `direct`. Answered at once when it is there already. AZ_DRAIN_MEMORY,
   * AZ_ZRAM_MISSING, AZ_ZSWAP_MISSING; `hello` says what there is then.
   */
  changeTier: { request: { tier: TierName; zswap?: ZswapOptions }; reply: object };
  /** Page everything in, remove the device, exit. Refused with the numbers when memory does not suffice. */
  drain: { request: object; reply: object };
}
export type Op = keyof Requests;
