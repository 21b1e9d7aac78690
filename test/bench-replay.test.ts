import { Ajv } from 'ajv';
import { spawn } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  closeSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { firstDifference, type RunRecord } from '../src/bench/record.js';
import { Capturer } from '../src/bench/replay/capture.js';
import { CRC_AT, type DumpHeader, RECORD, RECORD_HEADER, recordCrc } from '../src/bench/replay/dump.js';
import { DumpReader } from '../src/bench/replay/dump-reader.js';
import { DumpWriter, SizeLimit } from '../src/bench/replay/dump-writer.js';
import { runReplay } from '../src/bench/replay/replay.js';
import type { ReplayResult } from '../src/bench/replay/result.js';
import { runCapture } from '../src/bench/replay/run-capture.js';
import { whileStopped } from '../src/bench/replay/stopped.js';
import { type Onlooker, runFanOut } from '../src/bench/run.js';
import { NoSystem } from '../src/bench/systems/none.js';
import { RunView } from '../src/bench/view.js';
import { planDemo } from '../src/bench/workloads/demo.js';
import { packageRoot } from '../src/paths.js';
import { agentzip } from './support/command.js';

const PAGE = 4096;
const signal = new AbortController().signal;
const screen = { write: () => undefined };
const plan = planDemo({ sandboxes: 2, turns: 2, seed: 7, rows: 4000, timeScale: 0.1 });

let folder: string;
let dumps: string;
let captured: RunRecord;
let plain: RunRecord;

const fanOut = (onlooker?: Onlooker): Promise<RunRecord> => {
  const run = mkdtempSync(`${folder}/run-`);
  const view = new RunView('replay', new Map(plan.trajectories.map(({ sandbox }) => [sandbox, 2])));
  return runFanOut({ make: () => new NoSystem(), plan, seed: 7, folder: run, view, onlooker, signal });
};

const replay = (from: string, encoding = {}): Promise<ReplayResult> =>
  runReplay({ folder: from, encoding, screen, signal });

/** A copy of the dumps, to be spoilt. */
function copy(): string {
  const to = mkdtempSync(`${folder}/copy-`);
  cpSync(dumps, to, { recursive: true });
  return to;
}

function overwrite(path: string, at: number, bytes: Uint8Array): void {
  const fd = openSync(path, 'r+');
  writeSync(fd, bytes, 0, bytes.length, at);
  closeSync(fd);
}

const firstRecord = (path: string): number => readFileSync(path).indexOf('\n') + 1;

beforeAll(async () => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-replay-`);
  dumps = `${folder}/dumps`;
  captured = await fanOut(new Capturer({ folder: dumps, workload: 'demo', seed: 7, limitMiB: 512 }));
  plain = await fanOut();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a capture', () => {
  it('leaves a dump for each sandbox and a pack for the template, for root alone', () => {
    expect(readdirSync(dumps).sort()).toEqual(['python.pack', 'sandbox-1.dump', 'sandbox-2.dump']);
    expect(statSync(dumps).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(dumps)) expect(statSync(`${dumps}/${name}`).mode & 0o777).toBe(0o600);
  });

  it('holds what the sandboxes owned when their last wait ended', () => {
    for (const { sandbox, owned } of captured.waits.filter(({ turn }) => turn === 1)) {
      const dump = new DumpReader(`${dumps}/${sandbox}.dump`);
      const { header } = dump;
      dump.close();
      expect(header).toMatchObject({
        template: 'python',
        tenant: 'demo',
        workload: 'demo',
        seed: 7,
        turn: 2,
      });
      const pages = header.pages + header.zeroPages + header.leftPages;
      expect(pages).toBeGreaterThan(1000);
      expect(Math.abs(pages * PAGE - owned) / owned).toBeLessThan(0.01);
    }
  });

  it('changes nothing of what the sandboxes do', () => {
    expect(captured.calls.length).toBe(
      plan.trajectories.flatMap(({ turns }) => turns.flatMap((t) => t.calls)).length,
    );
    expect(firstDifference(plain, captured)).toBeNull();
  });

  it('refuses a folder that is not empty', () => {
    expect(() => new Capturer({ folder: dumps, workload: 'demo', seed: 7, limitMiB: 512 })).toThrow(
      'is not empty',
    );
  });

  it('stops at its limit and leaves no half a dump', () => {
    const small = `${folder}/small`;
    mkdirSync(small);
    const header = new DumpReader(`${dumps}/sandbox-1.dump`).header;
    const writer = new DumpWriter(`${small}/a.dump`, header, new SizeLimit(2 ** 20, small));
    const page = new Uint8Array(PAGE).fill(1);
    const fill = (): void => {
      for (let i = 0; i < 300; i++) writer.add(0, i, 0, page);
    };
    expect(fill).toThrow(/more than 1 MiB.*--capture-limit/);
    writer.abandon();
    expect(readdirSync(small)).toEqual([]);
  });
});

describe('a replay', () => {
  let result: ReplayResult;

  it('reads every page back, takes less memory, and says so in its schema', async () => {
    const json = `${folder}/replay.json`;
    result = await runReplay({ folder: dumps, json, screen, signal });
    const schema = JSON.parse(readFileSync(`${packageRoot}/src/bench/replay.schema.json`, 'utf8'));
    const validate = new Ajv({ allErrors: true }).compile(schema);
    expect(validate(JSON.parse(readFileSync(json, 'utf8'))), JSON.stringify(validate.errors)).toBe(true);
    const counted = Object.values(result.encodings).reduce((sum, { pages }) => sum + pages, 0);
    expect(counted).toBe(result.pages);
    expect(result.encodings.staged.pages).toBe(0);
    const { templateDelta, templateRun, sparse } = result.encodings;
    expect(templateDelta.pages + templateRun.pages + sparse.pages).toBeGreaterThan(0);
    expect(result.ratio.templateFree).toBeGreaterThan(1);
    expect(result.ratio.templateFree).toBeLessThan(result.ratio.blocks);
    expect(result.ratio.templateCharged).toBeLessThan(result.ratio.templateFree);
    // The store knows the template and the siblings, zstd only the page itself.
    const [zstd] = result.baselines;
    expect(result.memory.blockBytes).toBeLessThan(zstd.bytes);
    const { payloadBytes, blockBytes, arenaBytes } = result.memory;
    expect(payloadBytes).toBeLessThan(blockBytes);
    expect(blockBytes).toBeLessThanOrEqual(arenaBytes);
  });

  it('does without the encodings that are switched off, and stores more', async () => {
    const none = await replay(dumps, { delta: false, duplicates: false });
    for (const name of ['templateDelta', 'templateRun', 'siblingDelta', 'pair', 'sparse'] as const)
      expect(none.encodings[name].pages, name).toBe(0);
    expect(none.encodings.duplicate.pages).toBe(0);
    expect(none.memory.blockBytes).toBeGreaterThan(result.memory.blockBytes);
  });

  it('takes the first sandboxes only when asked to', async () => {
    const one = await runReplay({ folder: dumps, sandboxes: 1, screen, signal });
    expect(one.sandboxes).toBe(1);
    expect(one.pages).toBeLessThan(result.pages);
  });

  it('fails when a page comes back as another', async () => {
    const spoilt = copy();
    const path = `${spoilt}/sandbox-2.dump`;
    const at = firstRecord(path);
    // The page changes, checksum and all, between the moment it is stored and the moment it is compared.
    const write = (text: string): void => {
      if (!text.startsWith('sandbox-2')) return;
      const record = readFileSync(path).subarray(at, at + RECORD);
      record[RECORD_HEADER + 99] ^= 1;
      record.writeUInt32LE(recordCrc(record, 0), CRC_AT);
      overwrite(path, at, record);
    };
    await expect(runReplay({ folder: spoilt, screen: { write }, signal })).rejects.toMatchObject({
      code: 'AZ_RESULTS_DIFFER',
      message: expect.stringContaining(`at byte ${at} of ${path}`),
    });
  });
});

describe('a dump that can not be used', () => {
  const refused = async (from: string, reason: string | RegExp, offset?: number): Promise<void> => {
    const error = await replay(from).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'AZ_DUMP_INVALID', message: expect.stringMatching(reason) });
    const { details } = error as { details: { path: string; offset: number } };
    expect(details.path.startsWith(from)).toBe(true);
    if (offset !== undefined) expect(details.offset).toBe(offset);
  };

  it('is named with the byte at which it was cut off', async () => {
    const spoilt = copy();
    const path = `${spoilt}/sandbox-2.dump`;
    const size = firstRecord(path) + 20 * RECORD + 77;
    truncateSync(path, size);
    await refused(spoilt, /sandbox-2\.dump.*cut off after 20 of/, size);
    truncateSync(path, 10);
    await refused(spoilt, /ends before its header/, 10);
  });

  it('is named with the record that was changed', async () => {
    const spoilt = copy();
    const path = `${spoilt}/sandbox-1.dump`;
    const at = firstRecord(path) + 5 * RECORD;
    overwrite(path, at + RECORD_HEADER + 1000, new Uint8Array([1, 2, 3]));
    await refused(spoilt, /sandbox-1\.dump.*checksum/, at);
  });

  it('is refused for a header of another kind, for bytes too many, and for a pack elsewhere', async () => {
    const spoilt = copy();
    const path = `${spoilt}/sandbox-1.dump`;
    const header = readFileSync(path).subarray(0, firstRecord(path)).toString();
    overwrite(path, 0, Buffer.from(header.replace('dump/1', 'dump/9')));
    await refused(spoilt, /schema of its header/, 0);
    overwrite(path, 0, Buffer.from(header.replace('"pack":"python', '"pack":"../pyt')));
    await refused(spoilt, /pack of its header/, 0);
    overwrite(path, 0, Buffer.from(header));
    appendFileSync(path, 'x');
    await refused(spoilt, /1 bytes follow/);
  });

  it('is missed in a folder without one, and so is a pack', async () => {
    const empty = mkdtempSync(`${folder}/empty-`);
    await refused(empty, /no file that ends in \.dump/);
    const spoilt = copy();
    rmSync(`${spoilt}/python.pack`);
    await expect(replay(spoilt)).rejects.toMatchObject({ code: 'AZ_PACK_INVALID' });
  });
});

describe('the command', () => {
  it('replays with the switches it is given', async () => {
    const json = `${folder}/command.json`;
    const switches = ['--no-siblings', '--level', '1', '--sandboxes', '1', '--json', json];
    const { code, stdout, stderr } = await agentzip(['bench', '--replay', dumps, ...switches]);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/pages read back identical/);
    const result = JSON.parse(readFileSync(json, 'utf8')) as ReplayResult;
    expect(result.encoding).toMatchObject({ level: 1, siblings: false, delta: true, candidates: 3 });
    expect(result.encodings.siblingDelta.pages).toBe(0);
  });

  it.each([
    [['--level', '9'], '--level goes with --replay only'],
    [['--capture-turn', '2', '--replay', '/nowhere'], '--capture-turn goes with --capture only'],
    [['--capture', '/nowhere', '--replay', '/nowhere'], 'only one of --capture, --replay'],
  ])('refuses %j', async (words, message) => {
    const { code, stdout, stderr } = await agentzip(['bench', ...words]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`AZ_USAGE: ${message}`);
  });

  it('leaves no file of a capture that failed', async () => {
    const to = `${folder}/failed`;
    const options = { workload: 'demo', sandboxes: 1, turns: 1, seed: 7, timeScale: 0.1, files: folder };
    const capture = runCapture({ ...options, folder: to, limitMiB: 1, screen, signal });
    await expect(capture).rejects.toMatchObject({ code: 'AZ_USAGE' });
    expect(readdirSync(to)).toEqual([]);
  });
});

it('a header of any length leaves room for its counts', () => {
  const page = new Uint8Array(PAGE).fill(1);
  const mappings = [{ process: 0, key: 'private-file:/home/ä/ß 日本:0', start: PAGE, pages: 9 }];
  const common = { template: null, tenant: null, workload: 'w', seed: 0, turn: 1, pack: null };
  const counts = { pages: 0, zeroPages: 0, leftPages: 0 };
  const header: DumpHeader = { schema: 'agentzip.dump/1', sandbox: 'ü', ...common, ...counts, mappings };
  const writer = new DumpWriter(`${folder}/wide.dump`, header, new SizeLimit(2 ** 20, folder));
  writer.add(0, 3, 0xffffffff, page);
  writer.add(0, 4, 0xffffffff, new Uint8Array(PAGE));
  writer.finish();
  const reader = new DumpReader(`${folder}/wide.dump`);
  expect(reader.header).toEqual({ ...header, pages: 1, zeroPages: 1 });
  const [read] = [...reader.pages()];
  expect(read).toMatchObject({ mapping: 0, templatePage: 0xffffffff });
  expect(Buffer.compare(read.bytes, page)).toBe(0);
  reader.close();
});

it('processes stand still while they are looked at, and go on after it', async () => {
  const script = 'import time\nn = 0\nwhile True:\n n += 1\n print(n, flush=True)\n time.sleep(0.005)';
  const child = spawn('/usr/bin/python3', ['-c', script]);
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  try {
    while (said === '') await sleep(10);
    const pids = (): number[] => [child.pid as number];
    const silent = await whileStopped(pids, async () => {
      await sleep(50); // what it wrote before arrives
      const before = said;
      await sleep(200);
      return said === before;
    });
    expect(silent).toBe(true);
    const before = said;
    while (said === before) await sleep(10);
    await expect(whileStopped(pids, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    const after = said;
    while (said === after) await sleep(10);
  } finally {
    child.kill('SIGKILL');
  }
});
