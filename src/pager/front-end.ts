import type { ChannelPlan } from './requests/channel.js';

/**
 * A way to show the store to the kernel as a block device. Each one lives in a file of its own: what the control
 * thread does to set it up is here, the requests are answered by the data loop (see channel.ts).
 */
export interface FrontEnd {
  /** Block device, once `attach` is through. */
  readonly device: string;
  readonly attached: boolean;
  /** Does what must be there before the data loop can wait for requests, and says where it finds them. */
  prepare(): ChannelPlan;
  /** Makes the device. The data loop answers meanwhile. */
  attach(): Promise<void>;
  /** Swap has opened the device: let go of what only set-up needed. */
  settle(): void;
  /** Do requests wait that the kernel does not count as under way? Where there can be such. */
  hasUnread?(): boolean;
  /** Removes the device after swapoff, or what there is of it. */
  detach(): Promise<void>;
}
