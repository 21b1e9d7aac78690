import { readFileSync, watch, type FSWatcher } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Editors write in several steps: what follows within this time belongs to the same change. */
const SETTLE_MS = 150;
/** Where the kernel tells of no changes, and for files behind links, they are found by looking. */
const POLL_MS = 5_000;

/**
 * Tells when the text of a file has become another one. The folder is watched and not the file, for files are replaced by a
 * rename, and in Kubernetes by another target of a link above them.
 */
export class FileWatch {
  private folder: FSWatcher | null = null;
  private readonly poll: NodeJS.Timeout;
  private settling: NodeJS.Timeout | null = null;
  private text: string | null;

  constructor(
    private readonly file: string,
    private readonly changed: () => void,
  ) {
    this.text = this.read();
    this.poll = setInterval(() => this.look(), POLL_MS).unref();
    try {
      this.folder = watch(dirname(file), { persistent: false }, (_, name) => this.stir(name));
      // A folder that goes away, or too many watches: looking goes on.
      this.folder.on('error', () => this.folder?.close());
    } catch {
      this.folder = null;
    }
  }

  /** The text as it is now is known: a change back from it is one. */
  seen(): void {
    this.text = this.read();
  }

  close(): void {
    clearInterval(this.poll);
    if (this.settling !== null) clearTimeout(this.settling);
    this.folder?.close();
  }

  private stir(name: string | null): void {
    // Links are replaced under names of their own (`..data`).
    if (name !== null && name !== basename(this.file) && !name.startsWith('..')) return;
    if (this.settling !== null) clearTimeout(this.settling);
    this.settling = setTimeout(() => this.look(), SETTLE_MS).unref();
  }

  private look(): void {
    const text = this.read();
    if (text === this.text) return;
    this.text = text;
    this.changed();
  }

  /** Null: it can not be read. */
  private read(): string | null {
    try {
      return readFileSync(this.file, 'latin1');
    } catch {
      return null;
    }
  }
}
