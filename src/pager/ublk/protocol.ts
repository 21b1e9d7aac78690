/** ublk as the kernel speaks it (include/uapi/linux/ublk_cmd.h of Linux 6.12), as far as one queue needs it. */
const IOC = { read: 2, readWrite: 3 } as const;
const encode = (direction: number, number: number, bytes: number): number =>
  ((direction << 30) | (bytes << 16) | (0x75 << 8) | number) >>> 0;

const CONTROL_BYTES = 32;
/** Commands to /dev/ublk-control. */
export const Control = {
  GET_DEV_INFO: encode(IOC.read, 0x02, CONTROL_BYTES),
  ADD_DEV: encode(IOC.readWrite, 0x04, CONTROL_BYTES),
  START_DEV: encode(IOC.readWrite, 0x06, CONTROL_BYTES),
  STOP_DEV: encode(IOC.readWrite, 0x07, CONTROL_BYTES),
  SET_PARAMS: encode(IOC.readWrite, 0x08, CONTROL_BYTES),
  START_USER_RECOVERY: encode(IOC.readWrite, 0x10, CONTROL_BYTES),
  END_USER_RECOVERY: encode(IOC.readWrite, 0x11, CONTROL_BYTES),
  GET_FEATURES: encode(IOC.read, 0x13, CONTROL_BYTES),
  /** Does not wait until nobody has the device open (Linux 6.9). */
  DEL_DEV_ASYNC: encode(IOC.read, 0x14, CONTROL_BYTES),
} as const;
export const NEW_DEVICE = 0xffffffff;
export const NO_QUEUE = 0xffff;

/** Commands to /dev/ublkcN. */
export const FETCH_REQ = encode(IOC.readWrite, 0x20, 16);
export const COMMIT_AND_FETCH_REQ = encode(IOC.readWrite, 0x21, 16);

/** What the device can do for its server. */
export const Feature = {
  USER_RECOVERY: 1 << 3,
  /** Requests that a dead server had not answered are sent to the next. */
  USER_RECOVERY_REISSUE: 1 << 4,
  /** Page data is read from and written to the device's file, when the server wants it. */
  USER_COPY: 1 << 7,
} as const;

/** States of struct ublksrv_ctrl_dev_info: `QUIESCED`: its server is gone, and requests wait for the next. */
export const State = { DEAD: 0, LIVE: 1, QUIESCED: 2 } as const;

/** Offsets in struct ublksrv_ctrl_dev_info. */
export const Info = {
  QUEUES: 0,
  DEPTH: 2,
  STATE: 4,
  MAX_IO_BYTES: 8,
  ID: 12,
  SERVER_PID: 16,
  FLAGS: 24,
  /** Two words that are the server's own. */
  MARK: 32,
  BYTES: 64,
} as const;

/** Offsets in struct ublk_params: of the parameters for all devices, and of those for discards. */
export const Params = {
  LENGTH: 0,
  TYPES: 4,
  LOGICAL_SHIFT: 12,
  PHYSICAL_SHIFT: 13,
  IO_OPTIMAL_SHIFT: 14,
  IO_LEAST_SHIFT: 15,
  MAX_SECTORS: 16,
  SECTORS: 24,
  DISCARD_GRANULARITY: 44,
  MAX_DISCARD_SECTORS: 48,
  MAX_WRITE_ZEROES_SECTORS: 52,
  MAX_DISCARD_SEGMENTS: 56,
  BYTES: 64,
} as const;
export const PARAMS_BASIC_AND_DISCARD = 3;

/** Words of struct ublksrv_io_desc, one a tag. */
export const Request = { OPERATION: 0, SECTORS: 1, START: 2, WORDS: 6 } as const;
export const Operation = { READ: 0, WRITE: 1, FLUSH: 2, DISCARD: 3, WRITE_ZEROES: 5 } as const;
export const SECTOR = 512;

/** Where in the device's file the data of a tag's request begins (queue 0). */
export const dataOffset = (tag: number): number => 0x80000000 + tag * 2 ** 25;

/** Requests in flight. io_uring keeps memory for as many commands (IO_ALLOC_CACHE_MAX), so that none has to be allocated. */
export const DEPTH = 128;
/** Largest read or write of one request, bytes: the copying of a larger one would hold up a fault behind it. */
export const MAX_IO = 1 << 18;
/** Most bytes of one discard. */
export const MAX_DISCARD = 1 << 30;
