import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { GenericNetlink } from '../../native/netlink.js';
import { Attribute as A, Command, SERVER_FLAGS, SOCKET_FD, SOCKET_ITEM } from './protocol.js';

/**
 * A request that is not answered by then is sent again, on the connection that there is then; one that has not been answered
 * takes its connection with it. So it bounds how long a fault waits when the pager dies, and must be longer than a slow pager takes.
 */
const REQUEST_S = 2;
/** How long requests wait for somebody who takes over. A large store takes its time; after it they fail. */
const DEAD_CONNECTION_S = 60;

/** Tells the devices of one runtime directory from those of others. */
export const backendOf = (runtimeDir: string): string => `agentzip:${runtimeDir}`;

/** The NBD driver's netlink commands, for one thread. */
export class NbdControl {
  private readonly netlink: GenericNetlink;

  /** AZ_NBD_MISSING. */
  constructor() {
    try {
      this.netlink = new GenericNetlink('nbd');
    } catch (error) {
      throw new AgentZipError('AZ_NBD_MISSING', { reason: (error as Error).message });
    }
  }

  /** Makes a device of the first that is free, with a socket's other end as its server; returns its number. */
  connect(socket: number, bytes: number, backend: string): number {
    const { HAS_FLAGS, SEND_TRIM, SEND_WRITE_ZEROES } = SERVER_FLAGS;
    const told = this.netlink.request(Command.CONNECT, [
      [A.SIZE_BYTES, BigInt(bytes)],
      [A.BLOCK_BYTES, BigInt(PAGE)],
      [A.TIMEOUT_S, BigInt(REQUEST_S)],
      [A.DEAD_CONNECTION_TIMEOUT_S, BigInt(DEAD_CONNECTION_S)],
      [A.SERVER_FLAGS, BigInt(HAS_FLAGS | SEND_TRIM | SEND_WRITE_ZEROES)],
      [A.BACKEND, backend],
      sockets(socket),
    ]);
    return (told.get(A.INDEX) as Buffer).readUInt32LE(0);
  }

  /** Gives a device whose connection has ended another. ENOSPC: it has not ended yet; EINVAL: there is no such device. */
  reconnect(index: number, socket: number, backend: string): void {
    this.netlink.request(Command.RECONFIGURE, [[A.INDEX, index], [A.BACKEND, backend], sockets(socket)]);
  }

  /** Requests that wait are failed. */
  disconnect(index: number): void {
    this.netlink.request(Command.DISCONNECT, [[A.INDEX, index]]);
  }

  close(): void {
    this.netlink.close();
  }
}

const sockets = (socket: number) => [A.SOCKETS, [[SOCKET_ITEM, [[SOCKET_FD, socket]]]]] as const;

export const nbdDevice = (index: number): string => `/dev/nbd${index}`;

/** Numbers of the devices that pagers of a runtime directory have made. */
export function nbdDevicesOf(runtimeDir: string): number[] {
  const folders = readdirSync('/sys/block').filter((name) => /^nbd\d+$/.test(name));
  return folders
    .filter((name) => {
      const file = `/sys/block/${name}/backend`;
      return existsSync(file) && readFileSync(file, 'utf8').trim() === backendOf(runtimeDir);
    })
    .map((name) => Number(name.slice(3)));
}
