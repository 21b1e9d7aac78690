import { isLocked } from '../native/files.js';
import type { EncodingOptions } from '../store/encoding.js';
import type { FrontEndSetting } from './front-end-choice.js';
import type { TierName, ZswapOptions } from './swap/tier.js';

/** What a pager is started with; JSON on its command line. */
export interface PagerOptions {
  /** Where its socket, lock, log and mount point are. */
  runtimeDir: string;
  frontEnd: FrontEndSetting;
  /** What stands before its device. */
  tier: TierName;
  /** Of the tier zswap; a pager of an older version was started without. */
  zswap?: ZswapOptions;
  /** Size of the swap device in bytes of uncompressed pages; it costs memory only where it is used. */
  deviceBytes: number;
  /** Most bytes of stored page data. */
  storeBytes: number;
  /** Most bytes of pages waiting for refinement. */
  stagingBytes: number;
  /** Refine threads. */
  workers: number;
  encoding: EncodingOptions;
  /** Keep a second process that takes over when the pager dies. */
  standby: boolean;
}

export const pagerSocket = (runtimeDir: string): string => `${runtimeDir}/pager.sock`;
export const pagerLog = (runtimeDir: string): string => `${runtimeDir}/pager.log`;
export const pagerLock = (runtimeDir: string): string => `${runtimeDir}/pager.lock`;
export const pagerMount = (runtimeDir: string): string => `${runtimeDir}/device`;

/** Does a pager live here, or a standby that takes its place? */
export const hasPager = (runtimeDir: string): boolean => isLocked(pagerLock(runtimeDir));
