import { chmodSync, chownSync, lstatSync, readFileSync, unlinkSync } from 'node:fs';
import type { Server } from 'node:http';
import { AgentZipError } from '../errors.js';

export interface SocketOptions {
  socketPath: string;
  /** Permission bits of the socket. */
  mode: number;
  /** Group that owns it; default: that of the process. */
  gid?: number;
}

/**
 * Listens on a Unix socket in place of one that a dead instance left. The caller holds the lock that says it is dead.
 * Errors: AZ_RUNTIME_DIR, also when something that is no socket stands there.
 */
export async function listen(server: Server, { socketPath, mode, gid }: SocketOptions): Promise<void> {
  removeSocket(socketPath);
  // Until chmod the socket would have the permissions of the umask: nobody else may slip in between.
  const umask = process.umask(0o777);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(socketPath, () => {
        server.off('error', reject);
        resolve();
      });
      process.umask(umask);
    });
    if (gid !== undefined) chownSync(socketPath, process.getuid?.() ?? 0, gid);
    chmodSync(socketPath, mode);
  } catch (error) {
    const reason = (error as Error).message;
    throw new AgentZipError('AZ_RUNTIME_DIR', { path: socketPath, reason }, { cause: error });
  } finally {
    process.umask(umask);
  }
}

function removeSocket(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw new AgentZipError('AZ_RUNTIME_DIR', { path, reason: 'it is not a socket' });
  unlinkSync(path);
}

/** Group id by name, from /etc/group. Errors: AZ_GROUP_UNKNOWN. */
export function groupId(group: string): number {
  const lines = readFileSync('/etc/group', 'utf8').split('\n');
  const entry = lines.map((line) => line.split(':')).find(([name]) => name === group);
  if (!entry) throw new AgentZipError('AZ_GROUP_UNKNOWN', { group });
  return Number(entry[2]);
}
