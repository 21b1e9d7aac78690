import { lookup } from 'node:dns/promises';
import { isIP, isIPv4 } from 'node:net';
import { AgentZipError, explain } from '../errors.js';

const HTTPS_PORT = 443;
/** Size of map `endpoints` in bpf/traffic.h. */
const ADDRESSES_MAX = 4096;
/** An address that a name no longer has may still be in the caches of sandboxes. */
const KEEP_MS = 60 * 60_000;
/** A name that can not be resolved is asked for again after this, then after twice as long, and so on. */
const RETRY_MS = 10_000;

export interface Endpoint {
  host: string;
  port: number;
}

/** `host`, `host:port`, an address, or `[IPv6 address]:port`; without a port 443. */
export function parseEndpoint(text: string): Endpoint {
  if (isIP(text) !== 0) return { host: text, port: HTTPS_PORT };
  const [, host, port] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(text) as RegExpExecArray;
  return { host, port: port === undefined ? HTTPS_PORT : Number(port) };
}

/** Eight groups of an IPv6 address, or of an IPv4 address as ::ffff:a.b.c.d. */
function groupsOf(address: string): number[] {
  if (isIPv4(address)) return groupsOf(`::ffff:${address}`);
  const dotted = /(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address);
  if (dotted !== null) {
    const [a, b, c, d] = dotted.slice(1).map(Number);
    const hex = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
    return groupsOf(address.slice(0, dotted.index) + hex);
  }
  const [head, tail] = address
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''))
    .map((groups) => groups.map((group) => parseInt(group, 16)));
  if (tail === undefined) return head;
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}

/** Key of map `endpoints` in bpf/traffic.h: the address in network order, then the port as u32. */
export function endpointKey(address: string, port: number): Uint8Array {
  const key = new DataView(new ArrayBuffer(20));
  groupsOf(address).forEach((group, i) => key.setUint16(2 * i, group));
  key.setUint32(16, port, true);
  return new Uint8Array(key.buffer);
}

export interface EndpointsOptions {
  /** As in {@link parseEndpoint}. */
  entries: readonly string[];
  /** Time between two resolutions of a name. */
  refreshMs: number;
  add: (key: Uint8Array) => void;
  remove: (key: Uint8Array) => void;
  /** Addresses of a name; for tests. */
  resolve?: (host: string) => Promise<string[]>;
}

const addressesOf = async (host: string): Promise<string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/** Keeps the addresses of the models' endpoints up to date. */
export class Endpoints {
  private readonly endpoints: Endpoint[];
  /** Address and port → key, and when a name last had it, ms. */
  private readonly known = new Map<string, { key: Uint8Array; at: number }>();
  private readonly resolved = new Set<string>();
  private readonly unresolved = new Set<string>();
  private timer: NodeJS.Timeout | null = null;
  private started = false;
  private retryMs = RETRY_MS;
  private closed = false;

  constructor(private readonly options: EndpointsOptions) {
    this.endpoints = options.entries.map(parseEndpoint);
  }

  /** Addresses are there at once, names when they are resolved. Harmless when repeated. */
  start(): void {
    if (this.started) return;
    this.started = true;
    for (const { host, port } of this.endpoints) if (isIP(host) !== 0) this.note(host, port, Infinity);
    if (this.endpoints.some(({ host }) => isIP(host) === 0)) void this.refresh();
  }

  /** Names the endpoints whose requests go unseen, and what to do. */
  get warnings(): string[] {
    if (this.unresolved.size === 0) return [];
    return [explain(new AgentZipError('AZ_ENDPOINT_UNKNOWN', { names: [...this.unresolved].join(', ') }))];
  }

  close(): void {
    this.closed = true;
    for (const { key } of this.known.values()) this.options.remove(key);
    this.known.clear();
    if (this.timer !== null) clearTimeout(this.timer);
  }

  /** One name after the other: each takes a thread of libuv's pool, for long where no name server answers. */
  private async refresh(): Promise<void> {
    const resolve = this.options.resolve ?? addressesOf;
    for (const { host, port } of this.endpoints) {
      if (isIP(host) !== 0 || this.closed) continue;
      const addresses = await resolve(host).catch(() => []);
      if (this.closed) return;
      for (const address of addresses) this.note(address, port, Date.now());
      if (addresses.length > 0) this.resolved.add(host);
      // One that was resolved before keeps the addresses it had.
      if (this.resolved.has(host)) this.unresolved.delete(host);
      else this.unresolved.add(host);
    }
    this.forgetOld();
    const { refreshMs } = this.options;
    const pauseMs = this.unresolved.size > 0 ? Math.min(this.retryMs, refreshMs) : refreshMs;
    this.retryMs *= 2;
    this.timer = setTimeout(() => void this.refresh(), pauseMs);
    this.timer.unref();
  }

  private note(address: string, port: number, at: number): void {
    const name = `${address} ${port}`;
    const known = this.known.get(name);
    if (known !== undefined) {
      known.at = Math.max(known.at, at);
      return;
    }
    if (this.known.size === ADDRESSES_MAX) return;
    const key = endpointKey(address, port);
    this.known.set(name, { key, at });
    this.options.add(key);
  }

  private forgetOld(): void {
    for (const [name, { key, at }] of this.known) {
      if (Date.now() - at <= KEEP_MS) continue;
      this.known.delete(name);
      this.options.remove(key);
    }
  }
}
