import { createHash } from 'node:crypto';

/** Longest name of a sandbox, so that adapter and name together are an id of the API. */
const MOST_NAME = 100;
const MOST_TEMPLATE = 128;
const DIGEST_CHARACTERS = 8;

const digest = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, DIGEST_CHARACTERS);

/** `text` with dots in place of what no id may hold, its end kept where it is too long. Always the same for the same text. */
function plain(text: string, most: number, fill: string): string {
  const name = text.replace(/[^A-Za-z0-9._-]/g, fill).replace(/^[^A-Za-z0-9]+/, '');
  if (name.length <= most && name !== '') return name;
  return `${digest(text)}${fill}${name.slice(-(most - DIGEST_CHARACTERS - 1))}`;
}

/** Id of a sandbox that an adapter has found: `ADAPTER:NAME`, from what the platform calls it. */
export const foundId = (adapter: string, name: string): string => `${adapter}:${plain(name, MOST_NAME, '.')}`;

/**
 * Id of a template from what a platform calls it, such as `sha256:…`. A name that has to be changed further gets a digest, so
 * that no two are the same.
 */
export function templateId(name: string): string {
  const id = plain(name.replace(/^sha256:/, 'sha256-'), MOST_TEMPLATE, '-');
  if (id === name || /^sha256:[0-9a-f]{64}$/.test(name)) return id;
  const tail = `-${digest(name)}`;
  return id.endsWith(tail) ? id : id.slice(0, MOST_TEMPLATE - tail.length) + tail;
}
