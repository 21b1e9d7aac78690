/** NBD as the kernel's client speaks it (include/uapi/linux/nbd.h and nbd-netlink.h of Linux 6.12), big endian. */

/** Offsets in a request; the data of a write follows it. */
export const Request = { MAGIC: 0, TYPE: 6, COOKIE: 8, FROM: 16, LENGTH: 24, BYTES: 28 } as const;
export const REQUEST_MAGIC = 0x25609513;
export const Type = { READ: 0, WRITE: 1, DISCONNECT: 2, FLUSH: 3, TRIM: 4, WRITE_ZEROES: 6 } as const;

/** Offsets in a reply; the data of a read follows it. */
export const Reply = { MAGIC: 0, ERROR: 4, COOKIE: 8, BYTES: 16 } as const;
export const REPLY_MAGIC = 0x67446698;

/** Commands of the family `nbd` of generic netlink. */
export const Command = { CONNECT: 1, DISCONNECT: 2, RECONFIGURE: 3 } as const;
export const Attribute = {
  INDEX: 1,
  SIZE_BYTES: 2,
  BLOCK_BYTES: 3,
  TIMEOUT_S: 4,
  SERVER_FLAGS: 5,
  SOCKETS: 7,
  DEAD_CONNECTION_TIMEOUT_S: 8,
  /** Of no meaning to the kernel: it shows it in sysfs (Linux 5.14). */
  BACKEND: 10,
} as const;
export const SOCKET_ITEM = 1;
export const SOCKET_FD = 1;

/** What the server can do. Not FLUSH: a write that is answered is where it stays. Zeroes are asked for from Linux 6.12 on. */
export const SERVER_FLAGS = { HAS_FLAGS: 1, SEND_TRIM: 1 << 5, SEND_WRITE_ZEROES: 1 << 6 } as const;

/** Largest read or write of one request, bytes: the copying of a larger one would hold up a fault behind it. */
export const MAX_IO = 1 << 18;
/** Most bytes of one discard. */
export const MAX_DISCARD = 1 << 30;
