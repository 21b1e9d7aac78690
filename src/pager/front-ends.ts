import type { Workspace } from '../codec/kernels.js';
import { read } from '../native/files.js';
import { pidfdGetfd } from '../native/process.js';
import type { Store } from '../store/store.js';
import type { Channel, ChannelPlan, FrontEndName } from './channel.js';
import type { FrontEnd } from './front-end.js';
import { FUSE_BYTES, FuseChannel, REPLY_AT, REQUEST_BYTES } from './fuse-channel.js';
import { FuseLoop } from './fuse-loop.js';
import { FuseServer } from './fuse-server.js';
import { pagerMount, type PagerOptions } from './options.js';
import { UBLK_BYTES, UblkChannel } from './ublk-channel.js';
import { UblkControl } from './ublk-control.js';
import { UblkQueue } from './ublk-queue.js';
import { takeDevice } from './ublk-takeover.js';
import { Ublk } from './ublk.js';

/** All front ends: a further one is added here, and to ChannelPlan. */
export function createFrontEnd(name: FrontEndName, options: PagerOptions): FrontEnd {
  return name === 'ublk' ? Ublk.create(options) : new FuseLoop(pagerMount(options.runtimeDir));
}

/** The device of a pager that is gone: served, and swap already. */
export function adoptFrontEnd(plan: ChannelPlan, options: PagerOptions, device: string): FrontEnd {
  if (plan.frontEnd === 'ublk') return Ublk.adopt(options, plan.id);
  return FuseLoop.adopt(pagerMount(options.runtimeDir), device);
}

/** What a standby needs of the pager's channel while that lives: what it holds itself keeps the device alive. */
export function inheritChannel(plan: ChannelPlan, pager: number): ChannelPlan {
  return plan.frontEnd === 'ublk' ? plan : { ...plan, fd: pidfdGetfd(pager, plan.fd) };
}

/** Bytes of the data loop's workspace that a channel takes, from its beginning. */
export const channelBytes = ({ frontEnd }: ChannelPlan): number =>
  frontEnd === 'ublk' ? UBLK_BYTES : FUSE_BYTES;

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
  const { fd } = plan;
  const server = new FuseServer(store, workspace, fd, REPLY_AT);
  return new FuseChannel(server, workspace, fd, (address) => read(fd, address, REQUEST_BYTES));
}
