import { chmodSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { processRead } from '../../native/process.js';
import { lookAt, type Look } from '../../memory/look.js';
import { vectorsOf } from '../../memory/pageout.js';
import { identify } from '../../memory/process.js';
import type { Vma } from '../../memory/vmas.js';
import { type AddressMapper, TemplateAddresses } from '../../controller/claims/address.js';
import { capture } from '../../controller/templates/capture.js';
import { NO_TEMPLATE_PAGE } from '../../pager/protocol.js';
import { writeMemoryPack } from '../../store/memory-pack.js';
import { readPackRegions, writePack } from '../../store/pack.js';
import { MemoryMeter } from '../owned.js';
import type { Onlooker, WaitingSandbox } from '../run.js';
import { DUMP_SCHEMA, DUMP_SUFFIX, type DumpHeader, type DumpMapping } from './dump.js';
import { DumpWriter, SizeLimit } from './dump-writer.js';
import { whileStopped } from './stopped.js';

const READ_BYTES = 1 << 20;

/** Looks for no swapped pages: no device has this type (the kernel knows 32 at most). */
const NO_SWAP_TYPE = 32;

export interface CaptureOptions {
  /** Takes the dumps and packs; made, mode 0700, when it does not exist. */
  folder: string;
  workload: string;
  seed: number;
  /** Turn, from 1, at the end of whose wait a sandbox is captured; default: its last. */
  turn?: number;
  /** Most MiB of all files together. */
  limitMiB: number;
}

/** Writes templates as packs and waiting sandboxes as page dumps. */
export class Capturer implements Onlooker {
  private readonly packs = new Map<string, { file: string; addresses: TemplateAddresses }>();
  private readonly limit: SizeLimit;
  private readonly meter = new MemoryMeter();
  /** Sandboxes captured. */
  dumps = 0;

  /** AZ_USAGE when the folder holds files already: dumps of two runs would mix. */
  constructor(private readonly options: CaptureOptions) {
    const { folder, limitMiB } = options;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (readdirSync(folder).length > 0) {
      throw new AgentZipError('AZ_USAGE', { what: `${folder} is not empty`, command: 'bench' });
    }
    // Pages of sandboxes hold whatever they hold: keys, documents, passwords.
    chmodSync(folder, 0o700);
    this.limit = new SizeLimit(limitMiB * 2 ** 20, folder);
  }

  async templateReady(id: string, tenant: string, pid: number, memoryFile?: string): Promise<void> {
    const file = `${encodeURIComponent(id)}.pack`;
    const path = `${this.options.folder}/${file}`;
    const meta = { id, tenant, public: false };
    if (memoryFile === undefined) {
      const process = identify(pid);
      const captured = process && capture(process);
      if (!captured) throw new AgentZipError('AZ_NO_SUCH_PROCESS', { pid });
      await writePack(path, captured.regions, captured.pages, meta);
    } else {
      await writeMemoryPack(path, memoryFile, meta);
    }
    this.limit.take(statSync(path).size);
    this.packs.set(id, { file, addresses: new TemplateAddresses(readPackRegions(path).regions) });
  }

  async waitEnded(sandbox: WaitingSandbox, turn: number, turns: number): Promise<void> {
    const { turn: wanted = turns } = this.options;
    if (turn !== Math.min(wanted, turns)) return;
    await whileStopped(
      () => sandbox.pids(),
      () => this.dump(sandbox, turn),
    );
    this.dumps++;
  }

  /** Removes what was written: dumps of a capture that failed are of no use, and full of secrets. */
  discard(): void {
    const { folder } = this.options;
    for (const name of readdirSync(folder)) {
      if (/\.(dump|pack|mem|tmp)$/.test(name)) rmSync(`${folder}/${name}`);
    }
  }

  private async dump(sandbox: WaitingSandbox, turn: number): Promise<void> {
    const { folder, workload, seed } = this.options;
    const pack = this.packs.get(sandbox.template);
    const pids = sandbox.pids();
    const looks = pids.map(lookInto).filter((found) => found !== null);
    const { owned, swapped } = this.meter.measure(pids);
    const seen = looks.reduce((sum, { ownedPages }) => sum + ownedPages, 0);
    const header: DumpHeader = {
      schema: DUMP_SCHEMA,
      sandbox: sandbox.id,
      template: sandbox.template,
      tenant: sandbox.tenant,
      workload,
      seed,
      turn,
      pack: pack?.file ?? null,
      pages: 0,
      zeroPages: 0,
      leftPages: Math.max(0, (owned + swapped) / PAGE - seen),
      mappings: looks.flatMap(mappingsOf),
    };
    const path = `${folder}/${encodeURIComponent(sandbox.id)}${DUMP_SUFFIX}`;
    const writer = new DumpWriter(path, header, this.limit);
    try {
      let mappings = 0;
      for (const found of looks) {
        await dumpProcess(found, pack?.addresses.mapper(found.vmas), writer, mappings);
        mappings += pageable(found).length;
      }
      writer.finish();
    } catch (error) {
      writer.abandon();
      throw error;
    }
  }
}

function lookInto(pid: number): Look | null {
  const process = identify(pid);
  return process && lookAt(process, { flags: true, swapType: NO_SWAP_TYPE });
}

/** Mappings that may be paged out: all owned pages of a look are in these. */
const pageable = ({ vmas }: Look): Vma[] => vmas.filter(({ leftOut }) => leftOut === null);

const mappingsOf = (look: Look, process: number): DumpMapping[] =>
  pageable(look).map(({ key, start, end }) => ({ process, key, start, pages: (end - start) / PAGE }));

/** Writes the owned pages of one process, whose mappings begin at `firstMapping` in the header. */
async function dumpProcess(
  look: Look,
  map: AddressMapper | undefined,
  writer: DumpWriter,
  firstMapping: number,
): Promise<void> {
  const { process, owned } = look;
  const vmas = pageable(look);
  const buffer = new Uint8Array(READ_BYTES);
  let vma = 0;
  for (const vector of vectorsOf(owned, READ_BYTES)) {
    const bytes = vector.reduce((sum, { length }) => sum + length, 0);
    const read = await processRead(process.pid, vector, buffer.subarray(0, bytes));
    if (read !== bytes) throw unreadable(process.pid, bytes - read);
    let at = 0;
    for (const { address, length } of vector) {
      for (let done = 0; done < length; done += PAGE, at += PAGE) {
        while (vmas[vma].end <= address + done) vma++;
        const page = (address + done) / PAGE;
        const templatePage = map === undefined ? NO_TEMPLATE_PAGE : map(vmas[vma], page);
        const offset = page - vmas[vma].start / PAGE;
        writer.add(firstMapping + vma, offset, templatePage, buffer.subarray(at, at + PAGE));
      }
    }
  }
}

const unreadable = (pid: number, bytes: number): AgentZipError =>
  new AgentZipError('AZ_WORKLOAD_FAILED', {
    reason: `${bytes} bytes of process ${pid} could not be read`,
    log: `/proc/${pid}/maps`,
  });
