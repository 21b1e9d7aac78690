import { writeFileSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { mayUseTemplate, trustDomain } from '../../controller/claims/domain.js';
import { kindOfKey } from '../../memory/vmas.js';
import { DEFAULT_POLICY } from '../../policy/defaults.js';
import { readPackRegions } from '../../store/pack.js';
import type { EncodingOptions } from '../../store/encoding.js';
import { hostDisturbances } from '../disturbances.js';
import type { Screen } from '../live.js';
import { emptyFile } from '../output-files.js';
import { Baselines } from './baselines.js';
import { timeDecoding } from './decode-times.js';
import { DumpReader, dumpsIn } from './dump-reader.js';
import { replayReport } from './report.js';
import { ReplayStore } from './replay-store.js';
import { type ReplayResult, summarizeReplay } from './result.js';

export interface ReplayOptions {
  /** Holds the dumps and packs of one capture. */
  folder: string;
  /** What differs from the policy's defaults. */
  encoding?: Partial<EncodingOptions>;
  /** Most sandboxes, the first in the order of their names. */
  sandboxes?: number;
  /** File for the result in schema agentzip.replay/1. */
  json?: string;
  screen: Screen;
  /** Ends the replay between two sandboxes. */
  signal: AbortSignal;
}

const ZEROS = new Uint8Array(PAGE);

/**
 * Puts the pages of dumps through the product's codec and store alone, as if each sandbox in turn had waited for as
 * long as it takes, checks every page, and says what they cost. AZ_DUMP_INVALID and AZ_PACK_INVALID name the file
 * that can not be used; AZ_RESULTS_DIFFER the page that came back different.
 */
export async function runReplay(options: ReplayOptions): Promise<ReplayResult> {
  const { folder, sandboxes = Infinity, screen, signal } = options;
  const json = emptyFile('--json', options.json, 'bench');
  const disturbances = hostDisturbances();
  const dumps: DumpReader[] = [];
  let store: ReplayStore | undefined;
  try {
    for (const path of dumpsIn(folder).slice(0, sandboxes)) dumps.push(new DumpReader(path));
    const encoding = { ...DEFAULT_POLICY.encoding, ...options.encoding };
    const pages = dumps.reduce((sum, { bytes }) => sum + bytes / PAGE, 0);
    store = new ReplayStore(pages, encoding);
    const replay = new Replay(folder, store);
    for (const dump of dumps) {
      signal.throwIfAborted();
      await replay.add(dump);
      screen.write(`${dump.header.sandbox}: ${(dump.bytes / 2 ** 20).toFixed(1)} MiB\n`);
    }
    replay.verify(dumps);
    const headers = dumps.map(({ header }) => header);
    const result = summarizeReplay({
      ...{ headers, encoding, store, disturbances },
      mappingKind: (slot) => replay.mappingKind(slot),
      baselines: replay.baselines.results(),
      decodeUs: timeDecoding(store, pages, headers[0].seed),
    });
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
    screen.write(`${replayReport(result)}\n`);
    return result;
  } finally {
    for (const dump of dumps) dump.close();
    store?.close();
  }
}

/** The dumps of a capture on their way through the store; a page's slot is its place in their order. */
class Replay {
  readonly baselines = new Baselines();
  private readonly kinds: string[] = [];
  private readonly kindOfSlot: Uint8Array;
  private slots = 0;

  constructor(
    private readonly folder: string,
    private readonly store: ReplayStore,
  ) {
    this.kindOfSlot = new Uint8Array(store.tables.slots);
  }

  /** Writes a sandbox's pages, as its page-out does, and refines them, as its window does. */
  async add(dump: DumpReader): Promise<void> {
    const { header } = dump;
    const { store, baselines } = this;
    const origin = {
      id: header.sandbox,
      tenant: header.tenant ?? undefined,
      template: header.template ?? undefined,
    };
    const domain = trustDomain(origin, DEFAULT_POLICY.trust.domain);
    const owner = store.owner(header.sandbox, domain);
    const pack = this.packOf(dump, origin);
    const first = this.slots;
    const templatePages = new Uint32Array(header.pages);
    const kinds = header.mappings.map(({ key }) => kindOfKey(key));
    let at = 0;
    for (const { mapping, templatePage, bytes } of dump.pages()) {
      baselines.add(domain, bytes);
      const based = store.hasTemplatePage(pack, templatePage);
      this.write(bytes, `${kinds[mapping]}, ${based ? 'in the template' : 'new'}`);
      templatePages[at++] = templatePage;
    }
    store.refine(owner, first, templatePages, pack);
    baselines.addZeros(header.zeroPages);
    for (let i = 0; i < header.zeroPages; i++) this.write(ZEROS, 'zeros');
  }

  /** Reads everything back; AZ_RESULTS_DIFFER for the first page that is not what its dump holds. */
  verify(dumps: readonly DumpReader[]): void {
    let slot = 0;
    for (const dump of dumps) {
      for (const { bytes, offset } of dump.pages()) this.verifySlot(slot++, bytes, dump, `at byte ${offset}`);
      for (let i = 0; i < dump.header.zeroPages; i++) this.verifySlot(slot++, ZEROS, dump, 'of zeros');
    }
  }

  mappingKind(slot: number): string {
    return this.kinds[this.kindOfSlot[slot]];
  }

  private packOf(dump: DumpReader, origin: { id: string; tenant?: string }): number {
    if (dump.header.pack === null) return 0;
    const path = `${this.folder}/${dump.header.pack}`;
    return mayUseTemplate(origin, readPackRegions(path).meta) ? this.store.addPack(path) : 0;
  }

  private verifySlot(slot: number, page: Uint8Array, { path, header }: DumpReader, where: string): void {
    const read = this.store.read(slot);
    if (read !== null && Buffer.compare(read, page) === 0) return;
    throw new AgentZipError('AZ_RESULTS_DIFFER', {
      what: `the page ${where} of ${path} ${read === null ? 'can not be read back' : 'came back different'}`,
      seed: header.seed,
    });
  }

  private write(page: Uint8Array, kind: string): void {
    let number = this.kinds.indexOf(kind);
    if (number < 0) number = this.kinds.push(kind) - 1;
    this.kindOfSlot[this.slots] = number;
    this.store.write(this.slots++, page);
  }
}
