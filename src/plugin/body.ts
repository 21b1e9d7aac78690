import type { IncomingMessage } from 'node:http';
import { AgentZipError } from '../errors.js';

/**
 * A request's body as a JSON value; `{}` when there is none. What exceeds the limit is read and thrown away, so that a
 * client that is still writing gets to see the answer; the server's request timeout bounds that.
 * Errors: AZ_BODY_TOO_LARGE, AZ_BAD_JSON.
 */
export async function readJson(request: IncomingMessage, limitKiB: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limitKiB * 1024) chunks.length = 0;
    else chunks.push(chunk);
  }
  if (bytes > limitKiB * 1024) throw new AgentZipError('AZ_BODY_TOO_LARGE', { limitKiB });
  if (bytes === 0) return {};
  const type = (request.headers['content-type'] ?? 'none').split(';')[0].trim().toLowerCase();
  if (type !== 'application/json') {
    throw new AgentZipError('AZ_BAD_JSON', { reason: `its content-type is ${type}` });
  }
  return parse(Buffer.concat(chunks));
}

function parse(bytes: Buffer): unknown {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new AgentZipError('AZ_BAD_JSON', { reason: (error as Error).message }, { cause: error });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new AgentZipError('AZ_BAD_JSON', { reason: 'it is not an object' });
}
