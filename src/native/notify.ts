import { check } from './errno.js';
import { close } from './files.js';
import { libc } from './libc.js';
import { AF_UNIX, SOCK_DGRAM, socket } from './sockets.js';

const MSG_NOSIGNAL = 0x4000;
/** Of sun_path in struct sockaddr_un (unix(7)). */
const PATH_BYTES = 108;

const sendto_ = libc.func(
  'intptr_t sendto(int socket, const void *data, size_t bytes, int flags, const void *address, uint32_t addressBytes)',
);

/**
 * Sends one datagram to a Unix socket, which Node has no call for; `@` at the start of the path means the abstract
 * namespace. SystemError when nobody listens there.
 */
export function sendDatagram(path: string, text: string): void {
  const name = Buffer.from(path.replace(/^@/, '\0'));
  const address = Buffer.alloc(2 + Math.min(name.length, PATH_BYTES));
  address.writeUInt16LE(AF_UNIX);
  name.copy(address, 2);
  const fd = socket(AF_UNIX, SOCK_DGRAM, 0, path);
  try {
    const data = Buffer.from(text);
    check(sendto_(fd, data, data.length, MSG_NOSIGNAL, address, address.length), 'sendto', path);
  } finally {
    close(fd);
  }
}
