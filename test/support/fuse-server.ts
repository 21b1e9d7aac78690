import { Workspace } from '../../src/codec/kernels.js';
import { FuseServer } from '../../src/pager/fuse-server.js';
import { FUSE_BYTES, REPLY_AT } from '../../src/pager/inbox.js';
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
  return { workspace, store, server: new FuseServer(store, workspace, fd, REPLY_AT) };
}
