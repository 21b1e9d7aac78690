import type { Workspace } from '../codec/kernels.js';
import { AgentZipError } from '../errors.js';
import { close, read } from '../native/files.js';
import { pidfdGetfd } from '../native/process.js';
import { isReadable } from '../native/sockets.js';
import type { Store } from '../store/store.js';
import type { Channel, ChannelPlan, FrontEndName } from './requests/channel.js';
import { clearZramRemains } from './swap/zram-tier.js';
import { clearZswapRemains } from './swap/zswap-tier.js';
import type { FrontEnd } from './front-end.js';
import { chooseFrontEnd, loadModule, missingFrontEnd, type FrontEndChoice } from './front-end-choice.js';
import { FUSE_BYTES, FuseChannel, REPLY_AT, REQUEST_BYTES } from './fuse/channel.js';
import { FuseLoop } from './fuse/fuse-loop.js';
import { FuseServer } from './fuse/server.js';
import { NBD_BYTES, NbdChannel } from './nbd/channel.js';
import { NbdLink } from './nbd/link.js';
import { clearNbdRemains } from './nbd/remains.js';
import { Nbd } from './nbd/nbd.js';
import { pagerMount, type PagerOptions } from './options.js';
import { clearFuseRemains } from './fuse/remains.js';
import { UBLK_BYTES, UblkChannel } from './ublk/channel.js';
import { UblkControl } from './ublk/control.js';
import { UblkQueue } from './ublk/queue.js';
import { clearUblkRemains } from './ublk/remains.js';
import { takeDevice } from './ublk/takeover.js';
import { Ublk } from './ublk/ublk.js';

/** All front ends: a further one is added here, and to ChannelPlan. */
function createFrontEnd(name: FrontEndName, options: PagerOptions): FrontEnd {
  switch (name) {
    case 'ublk':
      return Ublk.create(options);
    case 'nbd':
      return Nbd.create(options);
    case 'fuse-loop':
      return new FuseLoop(pagerMount(options.runtimeDir));
  }
}

/**
 * The first that can be used of what the setting allows, prepared. Errors: AZ_UBLK_MISSING, AZ_UBLK_STUCK, AZ_NBD_MISSING,
 * AZ_FUSE_MISSING.
 */
export function prepareFrontEnd(options: PagerOptions): {
  frontEnd: FrontEnd;
  channel: ChannelPlan;
  choice: FrontEndChoice;
} {
  const failed: Partial<Record<FrontEndName, string>> = {};
  for (;;) {
    const choice = chooseFrontEnd(options.frontEnd, undefined, failed);
    loadModule(choice.frontEnd);
    try {
      const frontEnd = createFrontEnd(choice.frontEnd, options);
      return { frontEnd, channel: frontEnd.prepare(), choice };
    } catch (error) {
      const missing = error instanceof AgentZipError ? missingFrontEnd(error) : undefined;
      if (options.frontEnd !== 'auto' || missing === undefined) throw error;
      failed[missing] = String((error as AgentZipError).details.reason);
    }
  }
}

/** The device of a pager that is gone: served, and swap already. */
export function adoptFrontEnd(plan: ChannelPlan, options: PagerOptions, device: string): FrontEnd {
  if (plan.frontEnd === 'ublk') return Ublk.adopt(options, plan.id);
  if (plan.frontEnd === 'nbd') return Nbd.adopt(options, plan.index, plan.fd);
  return FuseLoop.adopt(pagerMount(options.runtimeDir), device);
}

/**
 * Takes away what pagers that died left behind, whatever their front end. Only for whoever holds the pager's lock. Pages
 * that were out are lost: processes that need them get SIGBUS. Returns what it removed.
 */
export async function clearRemains(runtimeDir: string): Promise<string[]> {
  const fuse = await clearFuseRemains(pagerMount(runtimeDir));
  const ublk = await clearUblkRemains(runtimeDir);
  const nbd = await clearNbdRemains(runtimeDir);
  // What stands before a device goes when that fails.
  return [
    ...fuse,
    ...ublk,
    ...nbd,
    ...(await clearZramRemains(runtimeDir)),
    ...clearZswapRemains(runtimeDir),
  ];
}

/** What a standby needs of the pager's channel while that lives: what it holds itself keeps the device alive. */
export function inheritChannel(plan: ChannelPlan, pager: number): ChannelPlan {
  return plan.frontEnd === 'ublk' ? plan : { ...plan, fd: pidfdGetfd(pager, plan.fd) };
}

/**
 * Has a pager (its pidfd) something to read? Of NBD alone: once a connection has ended, for a request was not answered in time, the
 * kernel counts what waits for the next one as no request under way.
 */
export function hasUnread(plan: ChannelPlan, pager: number): boolean {
  if (plan.frontEnd !== 'nbd') return false;
  try {
    // Anew each time: the pager has taken another connection since, perhaps.
    const fd = pidfdGetfd(pager, plan.fd);
    const unread = isReadable(fd);
    close(fd);
    return unread;
  } catch {
    return false; // it has just ended
  }
}

/** Bytes of the data loop's workspace that a channel takes, from its beginning. */
export const channelBytes = ({ frontEnd }: ChannelPlan): number =>
  ({ ublk: UBLK_BYTES, nbd: NBD_BYTES, 'fuse-loop': FUSE_BYTES })[frontEnd];

/**
 * The data loop's end of a channel. `deadPid`: of the pager whose place it will take; null when it serves from now on.
 */
export function openChannel(
  plan: ChannelPlan,
  store: Store,
  workspace: Workspace,
  deadPid: number | null,
): Channel {
  if (plan.frontEnd === 'ublk') {
    const queue = new UblkQueue();
    if (deadPid === null) queue.open(plan.id);
    // All that can be made before it is needed.
    const control = deadPid === null ? null : new UblkControl();
    return new UblkChannel(store, workspace, queue, () => {
      if (control !== null && deadPid !== null) takeDevice(control, queue, plan.id, deadPid);
    });
  }
  if (plan.frontEnd === 'nbd')
    return new NbdChannel(store, workspace, new NbdLink(plan.fd, plan.index, plan.backend));
  const { fd } = plan;
  const server = new FuseServer(store, workspace, fd, REPLY_AT);
  return new FuseChannel(server, workspace, fd, (address) => read(fd, address, REQUEST_BYTES));
}
