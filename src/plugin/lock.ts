import { chownSync, closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { AgentZipError } from '../errors.js';
import { isLocked, tryLock } from '../native/files.js';
import { controlSocket } from './runtime-files.js';

/** The right to be the one AgentZip of a runtime directory. The kernel takes it back when the process ends. */
export class InstanceLock {
  private constructor(private readonly fd: number) {}

  /**
   * Makes the directory when it is missing: for root alone, or for `gid` too when a group may use the socket in it.
   * Errors: AZ_ALREADY_RUNNING, AZ_RUNTIME_DIR.
   */
  static take(runtimeDir: string, gid?: number): InstanceLock {
    const file = join(runtimeDir, 'lock');
    let fd: number;
    try {
      const made = mkdirSync(runtimeDir, { recursive: true, mode: gid === undefined ? 0o700 : 0o750 });
      if (made !== undefined && gid !== undefined) chownSync(runtimeDir, process.getuid?.() ?? 0, gid);
      fd = openSync(file, 'a+', 0o600);
    } catch (error) {
      const reason = (error as Error).message;
      throw new AgentZipError('AZ_RUNTIME_DIR', { path: runtimeDir, reason }, { cause: error });
    }
    if (!tryLock(fd)) {
      closeSync(fd);
      const pid = readFileSync(file, 'utf8').trim() || 'unknown';
      throw new AgentZipError('AZ_ALREADY_RUNNING', { pid, socket: controlSocket(runtimeDir) });
    }
    ftruncateSync(fd);
    writeSync(fd, `${process.pid}\n`);
    return new InstanceLock(fd);
  }

  /** True while some process is the AgentZip of this directory. */
  static isHeld(runtimeDir: string): boolean {
    return isLocked(join(runtimeDir, 'lock'));
  }

  /** The file stays: removing it would let two instances lock two files of one name. */
  release(): void {
    closeSync(this.fd);
  }
}
