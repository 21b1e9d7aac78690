import { crc32 } from 'node:zlib';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';

export const DUMP_SCHEMA = 'agentzip.dump/1';
export const DUMP_SUFFIX = '.dump';

/** A mapping of a sandbox that has pages in its dump. */
export interface DumpMapping {
  /** Which of the sandbox's processes, from 0. */
  process: number;
  /** `kind:path:ordinal`: the same in every process of one program; see src/memory/vmas.ts. */
  key: string;
  /** Address in bytes, and length in pages. */
  start: number;
  pages: number;
}

/** What a dump says of itself. */
export interface DumpHeader {
  schema: typeof DUMP_SCHEMA;
  sandbox: string;
  template: string | null;
  tenant: string | null;
  workload: string;
  seed: number;
  /** Turn, from 1, at the end of whose wait the pages were read. */
  turn: number;
  /** Name of the template's pack, a file beside the dump. */
  pack: string | null;
  /** Page records. */
  pages: number;
  /** Pages of zeros, which have no record. */
  zeroPages: number;
  /** Pages the sandbox owned that AgentZip leaves alone (locked, executable …), or that were swapped out: not here. */
  leftPages: number;
  mappings: DumpMapping[];
}

/**
 * A dump is one line of JSON, the header, padded with blanks so that the counts can be filled in last; then `pages`
 * records. A record is four little-endian u32 (index in `mappings`; page in that mapping; template page or
 * NO_TEMPLATE_PAGE; CRC-32 of those three and the page) and the page's 4096 bytes.
 */
export const RECORD_HEADER = 16;
export const RECORD = RECORD_HEADER + PAGE;
export const CRC_AT = 12;
/** Longest header that is read: some 100 000 mappings. */
export const MAX_HEADER = 16 << 20;

/** CRC-32 of the record at `at`, as it should stand in it. */
export function recordCrc(buffer: Buffer, at: number): number {
  const fields = crc32(buffer.subarray(at, at + CRC_AT));
  return crc32(buffer.subarray(at + RECORD_HEADER, at + RECORD), fields);
}

/** AZ_DUMP_INVALID: what is wrong with a dump, and at which byte. */
export const invalid = (path: string, offset: number, reason: string): AgentZipError =>
  new AgentZipError('AZ_DUMP_INVALID', { path, offset, reason });

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isName = (value: unknown): boolean => typeof value === 'string' && value.length > 0;
/** The pack is named by whoever wrote the dump: it must not lead out of the folder. */
const isFileName = (value: unknown): boolean => isName(value) && /^[^/\0]+$/.test(value as string);

/** Each field and what it must be. */
const FIELDS: Record<keyof DumpHeader, (value: unknown) => boolean> = {
  schema: (value) => value === DUMP_SCHEMA,
  sandbox: isName,
  template: (value) => value === null || isName(value),
  tenant: (value) => value === null || isName(value),
  workload: isName,
  seed: isCount,
  turn: isCount,
  pack: (value) => value === null || isFileName(value),
  pages: isCount,
  zeroPages: isCount,
  leftPages: isCount,
  mappings: (value) =>
    Array.isArray(value) &&
    value.every(
      (m: DumpMapping) => isCount(m?.process) && isName(m.key) && isCount(m.start) && isCount(m.pages),
    ),
};

/** The header in a line of JSON; AZ_DUMP_INVALID when it is none. */
export function parseHeader(path: string, line: string): DumpHeader {
  let header: DumpHeader;
  try {
    header = JSON.parse(line) as DumpHeader;
  } catch (error) {
    throw invalid(path, 0, `its first line is no JSON (${(error as Error).message})`);
  }
  if (header === null || typeof header !== 'object')
    throw invalid(path, 0, 'its first line is no JSON object');
  for (const [field, fits] of Object.entries(FIELDS)) {
    if (!fits(header[field as keyof DumpHeader])) {
      throw invalid(path, 0, `${field} of its header is not what ${DUMP_SCHEMA} wants`);
    }
  }
  return header;
}
