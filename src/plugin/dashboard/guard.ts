import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Whom the dashboard answers: who comes by its own name, with its key, and only to read. */

export interface Gate {
  host: string;
  port: number;
  /** Every local user, and every sandbox in the host's network, can reach a loopback port: the key says who may read. */
  token: string;
}

/** An address in a URL: IPv6 in brackets. */
export const authority = (host: string, port: number): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

export const cookieName = (port: number): string => `agentzip_${port}`;

/** The names under which a browser on this host may know the page. Any other is a DNS name that was turned to loopback. */
export function isOwnName(header: string | undefined, { host, port }: Gate): boolean {
  const names = [authority(host, port), authority('localhost', port)];
  return header !== undefined && names.includes(header.toLowerCase());
}

function same(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function cookieOf(header: string | undefined, name: string): string {
  const pairs = (header ?? '').split(';').map((pair) => pair.trim().split('='));
  return pairs.find(([key]) => key === name)?.[1] ?? '';
}

export interface Refusal {
  status: number;
  text: string;
  headers?: Record<string, string>;
}

/** Why a request is refused; null when it may be answered. */
export function refusalOf(request: IncomingMessage, url: URL, gate: Gate): Refusal | null {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return { status: 405, text: 'this page can only be read', headers: { allow: 'GET, HEAD' } };
  }
  if (!isOwnName(request.headers.host, gate)) {
    return { status: 421, text: `this is the dashboard of AgentZip at ${authority(gate.host, gate.port)}` };
  }
  if (keyGiven(url, gate)) return null;
  if (same(cookieOf(request.headers.cookie, cookieName(gate.port)), gate.token)) return null;
  return {
    status: 401,
    text: 'open the address that stands in dashboard.url in the runtime directory of AgentZip',
  };
}

/** The address that was opened carries the key: the browser is to keep it. */
export const keyGiven = (url: URL, { token }: Gate): boolean =>
  url.pathname === '/' && same(url.searchParams.get('key') ?? '', token);
