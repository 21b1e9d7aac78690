import { Workspace } from '../../codec/kernels.js';
import { PAGE } from '../../native/libc.js';
import { loadLz4 } from '../../native/lz4.js';
import { threadCpuMs } from '../../native/process.js';
import { ZstdCompressor } from '../../native/zstd.js';
import { blockBytes } from '../../store/size-classes.js';

/** What another way to keep the same pages takes. Same-filled pages cost nothing in any. */
export interface BaselineResult {
  name: string;
  /** Bytes of blocks, rounded up as the store's own are; no tables. */
  bytes: number;
  ratio: number;
  /** CPU time a page that is not same-filled, µs; null where nothing is computed but a hash. */
  usPerPage: number | null;
}

const BATCH = 64;
const AT = { hash: BATCH * PAGE, output: (BATCH + 1) * PAGE };

interface Codec {
  name: string;
  /** Length of the encoded page at native address `from`; 0 or less when it is not smaller. */
  encode(from: number): number;
  bytes: number;
  ms: number;
}

/**
 * Encodes the pages of a dump by themselves, a page at a time, and counts what exact duplicates alone would save.
 * Give it every page, then ask for the results.
 */
export class Baselines {
  private readonly workspace = new Workspace((BATCH + 2) * PAGE);
  private readonly codecs: Codec[];
  /** Domain and hash of the distinct pages: of 64 bits, so two different pages in a million dumps may count as one. */
  private readonly seen = new Set<string>();
  private waiting = 0;
  private pages = 0;
  private encoded = 0;
  private distinctBytes = 0;

  constructor() {
    const { address } = this.workspace;
    const output = address + AT.output;
    const zstd = new ZstdCompressor(3);
    const lz4 = loadLz4();
    const codec = (name: string, encode: (from: number) => number): Codec => ({
      name,
      encode,
      bytes: 0,
      ms: 0,
    });
    this.codecs = [codec('zstd-3 a page', (from) => zstd.compress(output, PAGE - 1, from, PAGE))];
    if (lz4 !== null) this.codecs.push(codec('lz4 a page', (from) => lz4(from, output, PAGE, PAGE - 1)));
  }

  add(domain: string, page: Uint8Array): void {
    const { kernels, words, bytes } = this.workspace;
    const at = this.waiting * PAGE;
    bytes.set(page, at);
    this.pages++;
    if (kernels.isSameFilled(at) === 1) return;
    kernels.xxh64(at, AT.hash);
    const name = `${domain} ${words[AT.hash / 4]} ${words[AT.hash / 4 + 1]}`;
    if (!this.seen.has(name)) this.distinctBytes += PAGE;
    this.seen.add(name);
    if (++this.waiting === BATCH) this.encode();
  }

  addZeros(pages: number): void {
    this.pages += pages;
  }

  results(): BaselineResult[] {
    this.encode();
    const plain = this.pages * PAGE;
    const result = (name: string, bytes: number, usPerPage: number | null): BaselineResult => ({
      name,
      bytes,
      ratio: plain / Math.max(1, bytes),
      usPerPage,
    });
    return [
      ...this.codecs.map(({ name, bytes, ms }) =>
        result(name, bytes, (ms * 1000) / Math.max(1, this.encoded)),
      ),
      result('exact duplicates alone', this.distinctBytes, null),
    ];
  }

  /** Encodes what waits, all of it with one codec after the other: the clock costs as much as half a page. */
  private encode(): void {
    for (const codec of this.codecs) {
      const started = threadCpuMs();
      for (let i = 0; i < this.waiting; i++) {
        const length = codec.encode(this.workspace.address + i * PAGE);
        codec.bytes += blockBytes(length > 0 ? length : PAGE);
      }
      codec.ms += threadCpuMs() - started;
    }
    this.encoded += this.waiting;
    this.waiting = 0;
  }
}
