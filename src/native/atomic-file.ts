import { randomBytes } from 'node:crypto';
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

/** Writes bytes to a file that is being made, one part after the other. */
function writeAll(fd: number, parts: readonly Uint8Array[]): void {
  for (const part of parts) for (let done = 0; done < part.length;) done += writeSync(fd, part, done);
}

/**
 * A file that takes the place of the one at `path` when it is complete; until then, and when this fails, that one stays. For its owner
 * alone. Begin, fill `fd`, and then either `publish` or `abandon`.
 */
export class AtomicFile {
  readonly fd: number;
  private readonly temporary: string;

  constructor(private readonly path: string) {
    // In a container the process that has died had the same pid.
    this.temporary = `${path}.${randomBytes(4).toString('hex')}.tmp`;
    this.fd = openSync(this.temporary, 'wx+', 0o600);
  }

  /** When it fails the file is to be abandoned still. */
  publish(): void {
    renameSync(this.temporary, this.path);
    closeSync(this.fd);
  }

  abandon(): void {
    closeSync(this.fd);
    rmSync(this.temporary, { force: true });
  }

  static write(path: string, ...parts: readonly Uint8Array[]): void {
    const file = new AtomicFile(path);
    try {
      writeAll(file.fd, parts);
      file.publish();
    } catch (error) {
      file.abandon();
      throw error;
    }
  }
}
