import { check } from './errno.js';
import { close } from './files.js';
import { libc } from './libc.js';

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0x80000;
const MSG_NOSIGNAL = 0x4000;
/** Of sun_path in struct sockaddr_un (unix(7)). */
const PATH_BYTES = 108;

const socket_ = libc.func('int socket(int domain, int type, int protocol)');
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
  const socket = check(socket_(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), 'socket', path);
  try {
    const data = Buffer.from(text);
    check(sendto_(socket, data, data.length, MSG_NOSIGNAL, address, address.length), 'sendto', path);
  } finally {
    close(socket);
  }
}
