import { check, SystemError } from './errno.js';
import { close, read, write } from './files.js';
import { MAP_ANONYMOUS, MAP_PRIVATE, mmap, munmap, PROT_READ, PROT_WRITE, view } from './memory.js';
import { SOCK_RAW, socket } from './sockets.js';

/** A number is 32 bits long, a bigint 64. */
export type Attribute = readonly [type: number, value: number | bigint | string | readonly Attribute[]];

const AF_NETLINK = 16;
const NETLINK_GENERIC = 16;
/** struct nlmsghdr, struct genlmsghdr, struct nlattr (linux/netlink.h, genetlink.h). */
const HEADER_BYTES = 16;
const GENERIC_BYTES = 4;
const ATTRIBUTE_BYTES = 4;
const NLM_F_REQUEST_ACK = 1 | 4;
const NLMSG_ERROR = 2;
const NLA_F_NESTED = 0x8000;
const NLA_TYPE_MASK = 0x3fff;
/** The family that knows the others. */
const CONTROLLER = { FAMILY: 16, GET_FAMILY: 3, FAMILY_ID: 1, FAMILY_NAME: 2 } as const;
/** Of a message, either way. */
const ROOM = 16384;

const aligned = (length: number): number => (length + 3) & ~3;

/** Generic netlink: requests to one family of the kernel, one after the other. For one thread. */
export class GenericNetlink {
  private readonly fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC, 'netlink');
  private readonly address = mmap(ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  private readonly bytes = Buffer.from(view(this.address, ROOM));
  private readonly family: number;
  private sequence = 0;

  /** ENOENT: the kernel has no such family, or its module is not loaded. */
  constructor(private readonly name: string) {
    const ask: Attribute[] = [[CONTROLLER.FAMILY_NAME, name]];
    try {
      const told = this.exchange(CONTROLLER.FAMILY, CONTROLLER.GET_FAMILY, ask);
      this.family = (told.get(CONTROLLER.FAMILY_ID) as Buffer).readUInt16LE(0);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Sends a command, and waits for what is answered: values by type. SystemError with the kernel's errno. */
  request(command: number, attributes: readonly Attribute[]): Map<number, Buffer> {
    return this.exchange(this.family, command, attributes);
  }

  close(): void {
    close(this.fd);
    munmap(this.address, ROOM);
  }

  private exchange(family: number, command: number, attributes: readonly Attribute[]): Map<number, Buffer> {
    const { bytes } = this;
    const length = this.put(HEADER_BYTES + GENERIC_BYTES, attributes);
    bytes.writeUInt32LE(length, 0);
    bytes.writeUInt16LE(family, 4);
    bytes.writeUInt16LE(NLM_F_REQUEST_ACK, 6);
    bytes.writeUInt32LE(++this.sequence, 8);
    bytes.writeUInt32LE(0, 12);
    bytes.writeUInt32LE(command | (1 << 8), HEADER_BYTES); // version 1
    check(write(this.fd, this.address, length), 'netlink', this.name);
    return this.receive(command);
  }

  /** Everything up to the acknowledgement, which is the last. */
  private receive(command: number): Map<number, Buffer> {
    const { bytes } = this;
    const found = new Map<number, Buffer>();
    for (;;) {
      const end = check(read(this.fd, this.address, ROOM), 'netlink', this.name);
      for (let at = 0; at + HEADER_BYTES < end; at += aligned(bytes.readUInt32LE(at))) {
        if (bytes.readUInt16LE(at + 4) !== NLMSG_ERROR) {
          this.take(at + HEADER_BYTES + GENERIC_BYTES, at + bytes.readUInt32LE(at), found);
          continue;
        }
        const error = -bytes.readInt32LE(at + HEADER_BYTES);
        if (error !== 0) throw new SystemError('netlink', error, `${this.name}, command ${command}`);
        return found;
      }
    }
  }

  private take(from: number, end: number, found: Map<number, Buffer>): void {
    const { bytes } = this;
    for (let at = from; at + ATTRIBUTE_BYTES <= end; at += aligned(bytes.readUInt16LE(at))) {
      const value = bytes.subarray(at + ATTRIBUTE_BYTES, at + bytes.readUInt16LE(at));
      found.set(bytes.readUInt16LE(at + 2) & NLA_TYPE_MASK, Buffer.from(value));
    }
  }

  /** Writes attributes from an offset on; returns where they end. */
  private put(from: number, attributes: readonly Attribute[]): number {
    const { bytes } = this;
    let at = from;
    for (const [type, value] of attributes) {
      const data = at + ATTRIBUTE_BYTES;
      let end: number;
      if (typeof value === 'number') end = bytes.writeUInt32LE(value, data);
      else if (typeof value === 'bigint') end = bytes.writeBigUInt64LE(value, data);
      else if (typeof value === 'string') end = data + bytes.write(`${value}\0`, data);
      else end = this.put(data, value);
      bytes.writeUInt16LE(end - at, at);
      bytes.writeUInt16LE(type | (typeof value === 'object' ? NLA_F_NESTED : 0), at + 2);
      bytes.fill(0, end, aligned(end));
      at = aligned(end);
    }
    return at;
  }
}
