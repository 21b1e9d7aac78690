import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Ajv } from 'ajv';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { leftCgroups, SandboxCgroups } from '../src/bench/cgroups.js';
import { type MicroOptions, runMicro } from '../src/bench/micro/micro.js';
import type { MicroResult, SystemFigures } from '../src/bench/micro/result.js';
import { Subject, subjectTemplate } from '../src/bench/micro/subject.js';
import { swaps } from '../src/bench/micro/systems.js';
import { Reception } from '../src/bench/sandbox.js';
import { Template } from '../src/bench/template.js';
import { PAGE } from '../src/native/libc.js';
import { packageRoot } from '../src/paths.js';

const MIB = 16;
const PAGES = (MIB * 2 ** 20) / PAGE;
const schema = JSON.parse(readFileSync(`${packageRoot}/src/bench/micro/micro.schema.json`, 'utf8')) as object;
const isResult = new Ajv({ allErrors: true }).compile(schema);

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-micro-`);
});

afterEach(() => {
  rmSync(folder, { recursive: true });
  expect(leftCgroups()).toEqual([]);
});

const lines: string[] = [];
const options: MicroOptions = {
  ...{ subjectMiB: MIB, rounds: 1, seed: 3, faults: 256, command: 'agentzip bench --micro' },
  ...{ tier: 'direct', zramAlgorithm: 'lzo-rle' },
  screen: { write: (text: string) => lines.push(text) },
  signal: new AbortController().signal,
};

describe('a round of the micro bench', () => {
  // It compares every byte of the subject itself, after every restore: a wrong one rejects with AZ_RESULTS_DIFFER.
  it('measures AgentZip and what swap the kernel has, in the form of the schema, and leaves nothing behind', async () => {
    const json = `${folder}/micro.json`;
    const result = await runMicro({ ...options, json });
    const written = JSON.parse(readFileSync(json, 'utf8')) as MicroResult;
    expect(isResult(written), JSON.stringify(isResult.errors)).toBe(true);
    expect(written).toEqual(result);
    expect(lines.join('')).toContain('host clean');

    const { agentzip } = result;
    if ('unavailable' in agentzip) throw new Error(agentzip.unavailable);
    const [round] = agentzip.rounds;
    expect(round.pagesOut).toBeGreaterThan(0.95 * PAGES);
    expect(round.faults).toBe(256);
    expect(round.prefetchedPages).toBeGreaterThan(0.95 * PAGES);
    // Arena, tables and indexes are all of the pool.
    const metadata = round.metadataHeldBytesPerPage * pagesIn(agentzip.encodings);
    expect(round.arenaHeldBytes + metadata).toBeCloseTo(round.poolBytes, -5);
    expect(round.metadataHeldBytesPerPage).toBeGreaterThanOrEqual(round.metadataBytesPerPage);
    // Changed pages of the template: most are deltas, and all together take less than a quarter.
    const { delta, sparse } = agentzip.encodings;
    expect(delta + sparse).toBeGreaterThan(PAGES / 2);
    expect(round.storedBytesPerPage).toBeLessThan(PAGE / 4);

    for (const name of ['zswap', 'zram'] as const) {
      const figures: SystemFigures | { unavailable: string } = result[name];
      if ('unavailable' in figures) expect(figures.unavailable).toBe(swaps(options)[name].requires?.());
      else expect(figures.rounds[0].pagesOut).toBeGreaterThan(0.95 * PAGES);
      if (process.env.CI !== undefined) expect(figures).toHaveProperty('faultUs');
    }
    expect(lines.join('')).toMatch(/random fault p50, µs +\d+\.\d/);
  }, 240_000);

  it('refuses a file it can not write before anything starts', async () => {
    await expect(runMicro({ ...options, json: '/nowhere/out.json' })).rejects.toMatchObject({
      code: 'AZ_USAGE',
      message: expect.stringContaining('--json'),
    });
  });

  it('refuses a subject that does not fit into memory', async () => {
    await expect(runMicro({ ...options, subjectMiB: 1e7 })).rejects.toMatchObject({ code: 'AZ_USAGE' });
  });
});

describe('a subject', () => {
  it('has the same bytes for the same seed, and finds out when one of them changed', async () => {
    const cgroups = SandboxCgroups.create();
    const reception = await Reception.listen(`${folder}/sandboxes.sock`);
    const template = await Template.start(subjectTemplate(64, 1), folder, reception);
    try {
      const subject = await Subject.make(template, cgroups, 'one', 7);
      const other = await Subject.make(template, cgroups, 'two', 7);
      expect(subject.pages).toBe(64);
      expect(bytesOf(subject)).toEqual(bytesOf(other));
      await subject.change(8);
      expect(bytesOf(subject)).not.toEqual(bytesOf(other));
      await subject.verify();
      const at = subject.range.address + 12_345;
      const memory = openSync(`/proc/${subject.pid}/mem`, 'r+');
      writeSync(memory, Buffer.from([bytesOf(subject)[12_345] ^ 1]), 0, 1, at);
      closeSync(memory);
      await expect(subject.verify()).rejects.toMatchObject({ code: 'AZ_RESULTS_DIFFER' });
      await other.verify();
    } finally {
      await template.end();
      reception.close();
      await cgroups.removeAll();
    }
  }, 120_000);
});

const pagesIn = (encodings: object): number =>
  (Object.values(encodings) as number[]).reduce((sum, pages) => sum + pages, 0);

function bytesOf(subject: Subject): Buffer {
  const memory = openSync(`/proc/${subject.pid}/mem`, 'r');
  try {
    const bytes = Buffer.alloc(subject.range.length);
    expect(readSync(memory, bytes, 0, bytes.length, subject.range.address)).toBe(bytes.length);
    return bytes;
  } finally {
    closeSync(memory);
  }
}
