import { punchHole } from '../native/files.js';
import type { Digests } from './digests.js';
import { DICTIONARY_BYTES, MAX_DICTIONARIES } from './layout.js';
import type { Tables } from './tables.js';

/** Number of the dictionary that new pages of the domain are to use; 0 is none. Any thread may ask. */
export function openDictionary({ dictionaryDomain, dictionaryOpen }: Tables, domain: number): number {
  for (let number = 1; number <= MAX_DICTIONARIES; number++) {
    if (dictionaryDomain[number] === domain && dictionaryOpen[number] === 1) return number;
  }
  return 0;
}

/** A dictionary's digest of this kind; 0 when there is no memory for it. */
export function digestOf(digests: Digests, tables: Tables, number: number): number {
  const version = tables.dictionaryVersion[number];
  return digests.get(tables, version, tables.dictionaryAddress(number), tables.dictionaryLength[number]);
}

/**
 * What pages of a domain without a base have in common, for libzstd to begin with. A dictionary never changes. It stays
 * while a page names it, or while it is open: the one that new pages of its domain use. In the memory file it exists
 * once its domain is there, which is written last and goes first. Used by the data loop only.
 */
export class Dictionaries {
  /** Objects that name each. */
  readonly uses = new Uint32Array(MAX_DICTIONARIES + 1);
  private lastVersion = 0;

  /** `fd`: the memory file behind the tables. */
  constructor(
    private readonly tables: Tables,
    private readonly fd: number,
  ) {}

  /**
   * Opens a dictionary in the place of the domain's open one, which has to be of version `replaces` (0: none) still.
   * Its number, or 0 when another came first or there is no room.
   */
  add(domain: number, bytes: Uint8Array, replaces: number): number {
    const { tables } = this;
    const before = openDictionary(tables, domain);
    if (tables.dictionaryVersion[before] !== replaces || bytes.length > DICTIONARY_BYTES) return 0;
    const number = this.findRoom();
    if (number === 0) return 0;
    tables.dictionaryBytes(number).set(bytes);
    tables.dictionaryLength[number] = bytes.length;
    tables.dictionaryVersion[number] = ++this.lastVersion;
    tables.dictionaryOpen[number] = 1;
    Atomics.store(tables.dictionaryDomain, number, domain);
    if (before !== 0) this.close(before);
    return number;
  }

  /** Is it still what a worker has used? 0 is no dictionary, and needs none. */
  holds(number: number, domain: number, version: number): boolean {
    if (number === 0) return true;
    const { dictionaryDomain, dictionaryVersion } = this.tables;
    return dictionaryDomain[number] === domain && dictionaryVersion[number] === version;
  }

  retain(number: number): void {
    if (number === 0) return;
    this.uses[number]++;
  }

  release(number: number): void {
    if (number === 0) return;
    if (--this.uses[number] === 0 && this.tables.dictionaryOpen[number] === 0) this.free(number);
  }

  /** Nobody of the domain is left who could write pages. */
  retire(domain: number): void {
    const open = openDictionary(this.tables, domain);
    if (open !== 0) this.close(open);
  }

  /** After a restart, once every object has been counted. */
  finishRecovery(): void {
    const { dictionaryDomain, dictionaryVersion, dictionaryOpen } = this.tables;
    for (let number = 1; number <= MAX_DICTIONARIES; number++) {
      if (dictionaryDomain[number] === 0) continue;
      this.lastVersion = Math.max(this.lastVersion, dictionaryVersion[number]);
      // A crash may have left the one that was being replaced open.
      const newer = dictionaryDomain.some(
        (domain, other) =>
          domain === dictionaryDomain[number] &&
          dictionaryOpen[other] === 1 &&
          dictionaryVersion[other] > dictionaryVersion[number],
      );
      if (newer || dictionaryOpen[number] === 0) this.close(number);
    }
  }

  private close(number: number): void {
    this.tables.dictionaryOpen[number] = 0;
    if (this.uses[number] === 0) this.free(number);
  }

  /** A free number, if need be that of a dictionary that nothing rests on. */
  private findRoom(): number {
    const { dictionaryDomain } = this.tables;
    const free = dictionaryDomain.indexOf(0, 1);
    if (free > 0) return free;
    const unused = this.uses.indexOf(0, 1);
    if (unused < 0) return 0;
    this.free(unused);
    return unused;
  }

  /** Its bytes are pages of sandboxes: they go at once. */
  private free(number: number): void {
    Atomics.store(this.tables.dictionaryDomain, number, 0);
    this.tables.dictionaryOpen[number] = 0;
    punchHole(this.fd, this.tables.dictionaryFileOffset + number * DICTIONARY_BYTES, DICTIONARY_BYTES);
  }
}
