/** FUSE as the kernel speaks it (include/uapi/linux/fuse.h, protocol 7.40), as far as one file needs it. */
export const Opcode = {
  LOOKUP: 1,
  FORGET: 2,
  GETATTR: 3,
  SETATTR: 4,
  OPEN: 14,
  READ: 15,
  WRITE: 16,
  STATFS: 17,
  RELEASE: 18,
  FSYNC: 20,
  FLUSH: 25,
  INIT: 26,
  OPENDIR: 27,
  RELEASEDIR: 29,
  INTERRUPT: 36,
  DESTROY: 38,
  BATCH_FORGET: 42,
  FALLOCATE: 43,
} as const;

export const IN_HEADER_BYTES = 40;
export const OUT_HEADER_BYTES = 16;
/** A READ, whole: header and struct fuse_read_in. */
export const READ_BYTES = 80;
/** Offsets in a request, from its first byte. */
export const In = {
  LENGTH: 0,
  OPCODE: 4,
  UNIQUE: 8,
  NODE: 16,
  /** INIT */
  INIT_MINOR: 44,
  INIT_FLAGS: 52,
  INIT_FLAGS2: 56,
  /** READ, WRITE and FALLOCATE */
  OFFSET: 48,
  SIZE: 56,
  FALLOCATE_LENGTH: 56,
  FALLOCATE_MODE: 64,
  WRITE_DATA: 80,
} as const;

/** INIT flags; the second word holds bits 32 and up. */
export const ASYNC_READ = 1 << 0;
export const BIG_WRITES = 1 << 5;
export const ASYNC_DIO = 1 << 15;
export const MAX_PAGES = 1 << 22;
export const INIT_EXT = 1 << 30;
export const HAS_RESEND = 1 << 7;

/** enum fuse_notify_code: send unanswered requests again, with the top bit of their unique number set (Linux 6.9). */
export const NOTIFY_RESEND = 7;

export const FOPEN_DIRECT_IO = 1;
/** Modes of FALLOCATE (falloc.h); either leaves zeros. */
export const PUNCH_HOLE = 2;
export const ZERO_RANGE = 0x10;

/** Largest read or write of one request, bytes: the copying of a larger one would hold up a fault behind it. */
export const MAX_IO = 1 << 18;

export const ROOT_NODE = 1;
export const FILE_NODE = 2;
export const FILE_NAME = 'swap';
/** The same as the little-endian word it is in a request; a zero byte follows. */
export const FILE_NAME_WORD = 0x70617773;
