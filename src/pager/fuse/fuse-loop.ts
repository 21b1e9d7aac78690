import { mkdirSync, rmdirSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../../errors.js';
import { O_CLOEXEC, O_NONBLOCK, O_RDWR, open } from '../../native/files.js';
import { mount, umount } from '../../native/system.js';
import type { ChannelPlan } from '../requests/channel.js';
import type { FrontEnd } from '../front-end.js';
import { FILE_NAME, MAX_IO } from './protocol.js';
import { attachLoop, type LoopDevice } from './loop-device.js';

const MS_NOSUID = 2;
const MS_NODEV = 4;
/** The loop device lets its file go shortly after its last user; ms. */
const UNMOUNT_ATTEMPTS = 50;
const UNMOUNT_PAUSE_MS = 20;

/** Opens a FUSE channel. AZ_FUSE_MISSING. */
function openFuse(): number {
  try {
    return open('/dev/fuse', O_RDWR | O_CLOEXEC | O_NONBLOCK);
  } catch (error) {
    throw new AgentZipError('AZ_FUSE_MISSING', { reason: (error as Error).message });
  }
}

/** One file on FUSE, and a loop device over it: works on every kernel with both, without any module of ours. */
export class FuseLoop implements FrontEnd {
  private loop: LoopDevice | undefined;
  private mounted = false;

  constructor(private readonly mountPoint: string) {}

  get attached(): boolean {
    return this.loop !== undefined;
  }

  get device(): string {
    if (this.loop === undefined) throw new Error('not attached');
    return this.loop.path;
  }

  /** The device of a pager that is gone: mounted, and swap already. */
  static adopt(mountPoint: string, device: string): FuseLoop {
    const frontEnd = new FuseLoop(mountPoint);
    frontEnd.mounted = true;
    frontEnd.loop = { path: device, close: () => {} };
    return frontEnd;
  }

  /** Until there is a mount, reading the channel fails with EPERM. */
  prepare(): ChannelPlan {
    const fd = openFuse();
    mkdirSync(this.mountPoint, { recursive: true, mode: 0o700 });
    const options = `fd=${fd},rootmode=40000,user_id=0,group_id=0,max_read=${MAX_IO}`;
    mount('agentzip', this.mountPoint, 'fuse', MS_NOSUID | MS_NODEV, options);
    this.mounted = true;
    return { frontEnd: 'fuse-loop', fd };
  }

  async attach(): Promise<void> {
    // Not on this thread: it must be able to see the data loop fail.
    const file = await openFile(`${this.mountPoint}/${FILE_NAME}`, 'r+');
    try {
      this.loop = attachLoop(file.fd);
    } finally {
      await file.close();
    }
  }

  settle(): void {
    this.loop?.close();
  }

  async detach(): Promise<void> {
    if (!this.mounted) return;
    for (let attempt = 1; ; attempt++) {
      try {
        umount(this.mountPoint);
        break;
      } catch (error) {
        if (attempt === UNMOUNT_ATTEMPTS) throw error;
        await sleep(UNMOUNT_PAUSE_MS);
      }
    }
    this.mounted = false;
    rmdirSync(this.mountPoint);
  }
}
