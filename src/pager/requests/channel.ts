import type { Attention } from './attention.js';

/** What a request asks for. OTHER is answered at once, whatever it is. */
export const Ask = { READ: 0, WRITE: 1, DISCARD: 2, OTHER: 3 } as const;
export type Ask = (typeof Ask)[keyof typeof Ask];

/** No request. */
export const NONE = -1;
/** Of a write whose answer is given. */
export const ANSWERED = -1;
/** Requests of each kind that can wait; no front end has more of them in flight. */
export const MOST = 1024;
/** Pages of a write that are stored between two looks for something more urgent: some 10 µs. */
export const STEP_PAGES = 4;

/**
 * How the data loop meets the kernel's requests, whatever the front end. A request is a number that names it until it is
 * answered. Nothing here allocates on the JS heap.
 */
export interface Channel {
  /** The device is gone: there will be no more requests. */
  readonly gone: boolean;
  /** Is there a place for a request of any kind? `oldestWrite`: of those that wait, or NONE. False: do writes first. */
  hasRoom(oldestWrite: number): boolean;
  /** Takes the next request, or NONE. Only after `hasRoom`. */
  take(): number;
  ask(request: number): Ask;
  /** First slot of a READ. */
  slot(request: number): number;
  /** Pages of a READ. */
  pages(request: number): number;
  /** A READ will be answered later: its name from now on. First in, first out, MOST at a time. */
  putAside(request: number): number;
  /** Answers a request that is no WRITE. */
  answer(request: number): void;
  /** Stores up to `limit` (STEP_PAGES) pages of a WRITE, of which `done` are stored: how many are stored now, or ANSWERED. */
  write(request: number, done: number, limit: number): number;
  /** Blocks until there may be a request, somebody rings, or `timeoutMs` have passed; true when somebody rang. */
  wait(attention: Attention, timeoutMs: number): boolean;
  /**
   * Takes the place of a server that died. False when requests that it had taken and not answered do not come again.
   */
  resume(): boolean;
}

/** Where the data loop finds the requests of a front end; plain data, for its thread and for the standby. */
export type ChannelPlan =
  | { frontEnd: 'fuse-loop'; fd: number }
  | { frontEnd: 'ublk'; id: number }
  | { frontEnd: 'nbd'; fd: number; index: number; backend: string };

export type FrontEndName = ChannelPlan['frontEnd'];
