import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runBench } from '../src/bench/bench.js';
import { cpio, device, directory, file } from '../src/bench/microvm/cpio.js';
import { MemoryMeter } from '../src/bench/owned.js';
import { cpuSeconds, ended } from '../src/bench/processes.js';
import { Reception, type Sandbox } from '../src/bench/sandbox.js';
import { Template } from '../src/bench/template.js';
import type { ToolCall } from '../src/bench/workload.js';
import { microvm } from '../src/bench/workloads/microvm.js';

const FILES = '/var/cache/agentzip-bench';
/** The smallest project. */
const SEED = 9;
const { signal } = new AbortController();
const screen = { write: () => undefined };
const MIB = 2 ** 20;

describe('an initramfs', () => {
  it('is an archive as the kernel wants it', () => {
    const archive = cpio([
      directory('dev'),
      device('dev/console', 5, 1),
      file('init', Buffer.from('#!/bin/sh\n'), 0o755),
    ]);
    const text = archive.toString('latin1');
    const heads = [...text.matchAll(/070701([0-9a-f]{104})/g)].map(({ index, 1: hex }) => ({
      index,
      fields: Array.from({ length: 13 }, (_, i) => parseInt(hex.slice(8 * i, 8 * i + 8), 16)),
    }));
    expect(heads.every(({ index }) => index % 4 === 0)).toBe(true);
    expect(archive.length % 4).toBe(0);
    const modes = heads.map(({ fields }) => (fields[1] ?? 0).toString(8));
    expect(modes).toEqual(['40755', '20600', '100755', '0']);
    expect(heads[1].fields.slice(9, 11)).toEqual([5, 1]);
    expect(text).toContain('init\0');
    expect(text.endsWith('TRAILER!!!\0\0\0\0')).toBe(true);
  });
});

const CALLS: ToolCall[] = [
  { tool: 'list', args: { path: 'toolz' } },
  { tool: 'read', args: { path: 'toolz/dicttoolz.py', start: 1 } },
  {
    tool: 'script',
    args: { code: 'import os, toolz\nvalues = list(toolz.unique([1, 1, 2]))\nprint(values)' },
  },
  { tool: 'review', args: {} },
];

describe('microVMs', () => {
  let folder = '';
  let reception: Reception;
  let template: Template;
  const sandboxes: Sandbox[] = [];

  beforeAll(async () => {
    await microvm.prepare(FILES, () => undefined, signal);
    folder = mkdtempSync(`${tmpdir()}/agentzip-microvm-`);
    reception = await Reception.listen(`${folder}/s`);
    const { templates } = microvm.plan({ seed: SEED, sandboxes: 1, turns: 1, timeScale: 1, files: FILES });
    template = await Template.start(templates[0], folder, reception);
  }, 300_000);
  afterAll(async () => {
    for (const sandbox of sandboxes) await sandbox.end();
    await template?.end();
    reception?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const machine = async (id: string): Promise<Sandbox> => {
    mkdirSync(`${folder}/${id}`);
    const sandbox = await template.make(id, `${folder}/${id}`);
    sandboxes.push(sandbox);
    return sandbox;
  };

  it('start from one saved guest, answer alike, rest, and end with their sandbox', async () => {
    const memory = template.memoryFile ?? '';
    const before = statSync(memory).mtimeMs;
    const answers: string[][] = [];
    const times: number[] = [];
    for (const id of ['one', 'two']) {
      const from = performance.now();
      const sandbox = await machine(id);
      const all: string[] = [];
      for (const call of CALLS) {
        all.push(await sandbox.call(call));
        times.push(performance.now() - from);
      }
      answers.push(all);
    }
    process.stdout.write(`first answers after ${times[0].toFixed()} and ${times[4].toFixed()} ms\n`);
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[0][2]).toContain('[1, 2]');
    // What a machine writes is its own.
    expect(statSync(memory).mtimeMs).toBe(before);
    const [one, two] = sandboxes;
    for (const { pid } of sandboxes) {
      const mapping = readFileSync(`/proc/${pid}/maps`, 'utf8')
        .split('\n')
        .filter((line) => line.endsWith(memory));
      expect(mapping.map((line) => line.split(' ')[1])).toEqual(['rw-p']);
      const { owned } = new MemoryMeter().measure([pid]);
      process.stdout.write(`a machine owns ${(owned / MIB).toFixed(1)} MiB\n`);
      expect(owned).toBeGreaterThan(10 * MIB);
      expect(owned).toBeLessThan(80 * MIB);
    }
    // A machine that waits for its next call takes next to nothing.
    const used = cpuSeconds(one.pid);
    await sleep(3000);
    expect(cpuSeconds(one.pid) - used).toBeLessThan(0.6);

    expect(await one.end()).toBe(true);
    await template.end();
    expect(await ended(two.pid, 5000)).toBe(true);
  }, 120_000);

  it('shrink in their waits to what they changed of the saved guest, and answer the same', async () => {
    const result = await runBench({
      ...{ workload: 'microvm-16', systems: ['agentzip'], runs: 1, sandboxes: 2, turns: 2, seed: SEED },
      ...{ timeScale: 0.4, files: FILES, command: 'agentzip bench', screen, signal },
    });
    const [none, zip] = result.systems;
    expect(none.resultsIdentical && zip.resultsIdentical).toBe(true);
    expect(zip.reductionAtWaitEnd.median).toBeGreaterThan(2);
    expect(existsSync(template.memoryFile ?? '')).toBe(true);
  }, 240_000);
});
