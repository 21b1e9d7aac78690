import { Workspace } from '../../src/codec/kernels.js';
import { FUSE_BYTES, FuseChannel, REPLY_AT } from '../../src/pager/fuse/channel.js';
import { FuseServer } from '../../src/pager/fuse/server.js';
import { Store, STORE_BYTES } from '../../src/store/store.js';
import type { StoreBench } from './store.js';

/** A FUSE server over a bench's store: requests are put into its workspace, replies go to `fd`. */
export function fuseServerOver(bench: StoreBench, fd: number) {
  const workspace = new Workspace(FUSE_BYTES + STORE_BYTES);
  const store = new Store(bench.tables, bench.shared, bench.packs, workspace, {
    fd: bench.fd,
    stagingBytes: 1 << 30,
    scratch: FUSE_BYTES,
  });
  const server = new FuseServer(store, workspace, fd, REPLY_AT);
  /** Its channel, whose requests `next` reads to an address. */
  const channelOver = (next: (address: number) => number): FuseChannel =>
    new FuseChannel(server, workspace, fd, next);
  return { workspace, store, server, channelOver };
}
