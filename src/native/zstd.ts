import koffi from 'koffi';
import { AgentZipError } from '../errors.js';

/** libzstd, called by address: no marshalling and no allocation for a page. */
function bind() {
  let lib;
  try {
    lib = koffi.load('libzstd.so.1');
  } catch (error) {
    throw new AgentZipError('AZ_LIBRARY_MISSING', {
      library: 'libzstd.so.1',
      reason: (error as Error).message,
      package: 'libzstd1',
    });
  }
  return {
    versionString: lib.func('const char *ZSTD_versionString()'),
    createCCtx: lib.func('intptr_t ZSTD_createCCtx()'),
    createDCtx: lib.func('intptr_t ZSTD_createDCtx()'),
    setCParameter: lib.func('size_t ZSTD_CCtx_setParameter(intptr_t context, int parameter, int value)'),
    setDParameter: lib.func('size_t ZSTD_DCtx_setParameter(intptr_t context, int parameter, int value)'),
    resetCCtx: lib.func('size_t ZSTD_CCtx_reset(intptr_t context, int directive)'),
    refPrefix: lib.func('size_t ZSTD_CCtx_refPrefix(intptr_t context, intptr_t prefix, size_t length)'),
    compress: lib.func(
      'intptr_t ZSTD_compress2(intptr_t context, intptr_t to, size_t capacity, intptr_t from, size_t length)',
    ),
    createOwnDigest: lib.func('intptr_t ZSTD_createCDict(intptr_t bytes, size_t length, int level)'),
    createDigest: lib.func('intptr_t ZSTD_createCDict_byReference(intptr_t bytes, size_t length, int level)'),
    freeDigest: lib.func('size_t ZSTD_freeCDict(intptr_t digest)'),
    createDecodeDigest: lib.func('intptr_t ZSTD_createDDict_byReference(intptr_t bytes, size_t length)'),
    freeDecodeDigest: lib.func('size_t ZSTD_freeDDict(intptr_t digest)'),
    decompressDigest: lib.func(
      'intptr_t ZSTD_decompress_usingDDict(intptr_t context, intptr_t to, size_t capacity, intptr_t from, size_t length, intptr_t digest)',
    ),
    refDigest: lib.func('size_t ZSTD_CCtx_refCDict(intptr_t context, intptr_t digest)'),
    train: lib.func(
      'intptr_t ZDICT_trainFromBuffer(intptr_t to, size_t capacity, intptr_t samples, intptr_t sizes, unsigned int count)',
    ),
    decompress: lib.func(
      'intptr_t ZSTD_decompressDCtx(intptr_t context, intptr_t to, size_t capacity, intptr_t from, size_t length)',
    ),
    decompressWith: lib.func(
      'intptr_t ZSTD_decompress_usingDict(intptr_t context, intptr_t to, size_t capacity, intptr_t from, size_t length, intptr_t prefix, size_t prefixLength)',
    ),
  };
}

let bound: ReturnType<typeof bind> | undefined;
const zstd = (): ReturnType<typeof bind> => (bound ??= bind());

/** Version of the library that is loaded: sizes differ from one to the next. */
export const zstdVersion = (): string => zstd().versionString();

/** ZSTD_reset_session_only: parameters stay. */
const RESET_SESSION = 1;
const C_LEVEL = 100;
const C_CONTENT_SIZE_FLAG = 200;
const C_CHECKSUM_FLAG = 201;
const C_DICT_ID_FLAG = 202;
/** ZSTD_c_literalCompressionMode, experimental but the same since 1.4.0; 2 is "as they are". */
const C_LITERALS = 1002;
const UNCOMPRESSED = 2;
/** ZSTD_c_format and ZSTD_d_format, experimental but stable since 1.4.0; 1 is "zstd1 without the magic number". */
const C_FORMAT = 10;
const D_FORMAT = 1000;
const MAGICLESS = 1;

/**
 * Compresses pages into frames without magic number, checksum and content size (our object table knows better).
 * libzstd reports errors as sizes near 2^64; read as a signed number they are negative, and so are our results.
 */
export class ZstdCompressor {
  private readonly context: number;
  private readonly fn = zstd();

  /** `plainLiterals`: bytes that repeat nothing are kept as they are, which saves a decoder the making of Huffman tables. */
  constructor(level: number, plainLiterals = false) {
    this.context = this.fn.createCCtx();
    this.fn.setCParameter(this.context, C_LEVEL, level);
    this.fn.setCParameter(this.context, C_CONTENT_SIZE_FLAG, 0);
    this.fn.setCParameter(this.context, C_CHECKSUM_FLAG, 0);
    this.fn.setCParameter(this.context, C_DICT_ID_FLAG, 0);
    this.fn.setCParameter(this.context, C_FORMAT, MAGICLESS);
    if (plainLiterals) this.fn.setCParameter(this.context, C_LITERALS, UNCOMPRESSED);
  }

  /** Bytes written at `to`, or a negative number when they exceed `capacity`. Addresses are native. */
  compress(to: number, capacity: number, from: number, length: number): number {
    const written = this.fn.compress(this.context, to, capacity, from, length);
    // A frame that did not fit stays open in libzstd, and the next prefix would be refused without a word.
    if (written < 0) this.fn.resetCCtx(this.context, RESET_SESSION);
    return written;
  }

  /** The same with `prefix` as what came before; the decoder must be given equal bytes. */
  compressDelta(
    to: number,
    capacity: number,
    from: number,
    length: number,
    prefix: number,
    prefixLength: number,
  ): number {
    this.fn.refPrefix(this.context, prefix, prefixLength);
    return this.compress(to, capacity, from, length);
  }

  /** The same with a prefix from a `digestMaker`, at the digest's level. */
  compressDigest(to: number, capacity: number, from: number, length: number, digest: number): number {
    this.fn.refDigest(this.context, digest);
    const written = this.compress(to, capacity, from, length);
    this.fn.refDigest(this.context, 0);
    return written;
  }
}

/**
 * Makes bytes ready to be a prefix many times: libzstd's match tables over them, for a level. They must stay where they are
 * until the digest is freed. A digest is its address, or 0.
 */
export const digestMaker = (level: number) => ({
  create: (bytes: number, length: number): number => zstd().createDigest(bytes, length, level),
  free: (digest: number): void => void zstd().freeDigest(digest),
});

/** The same with a copy of the bytes. */
export const copyingDigestMaker = (level: number) => ({
  ...digestMaker(level),
  create: (bytes: number, length: number): number => zstd().createOwnDigest(bytes, length, level),
});

/** The same for decompressing: a dictionary's tables are built once and not for each page. */
export const decodeDigestMaker = {
  create: (bytes: number, length: number): number => zstd().createDecodeDigest(bytes, length),
  free: (digest: number): void => void zstd().freeDecodeDigest(digest),
};

/**
 * Makes a dictionary of at most `capacity` bytes at `to` from samples that lie one behind the other, with their sizes as
 * u64 words at `sizes`. Its length; 0 or less when libzstd finds nothing to make it from, or has no memory.
 */
export const trainDictionary = (
  to: number,
  capacity: number,
  samples: number,
  sizes: number,
  count: number,
): number => zstd().train(to, capacity, samples, sizes, count);

export class ZstdDecompressor {
  private readonly context: number;
  private readonly fn = zstd();

  constructor() {
    this.context = this.fn.createDCtx();
    this.fn.setDParameter(this.context, D_FORMAT, MAGICLESS);
  }

  /** Bytes written at `to`; negative for a damaged frame. */
  decompress(to: number, capacity: number, from: number, length: number): number {
    return this.fn.decompress(this.context, to, capacity, from, length);
  }

  /** With a digest from `decodeDigestMaker`. */
  decompressDigest(to: number, capacity: number, from: number, length: number, digest: number): number {
    return this.fn.decompressDigest(this.context, to, capacity, from, length, digest);
  }

  decompressDelta(
    to: number,
    capacity: number,
    from: number,
    length: number,
    prefix: number,
    prefixLength: number,
  ): number {
    return this.fn.decompressWith(this.context, to, capacity, from, length, prefix, prefixLength);
  }
}
