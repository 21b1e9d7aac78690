import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { ModelFiles } from '../src/controller/prefetch/model-file.js';
import { Models } from '../src/controller/prefetch/models.js';
import { hashOf, PrefetchModel } from '../src/controller/prefetch/prefetch-model.js';

let folder: string;
let files: ModelFiles;
beforeEach(() => {
  folder = join(mkdtempSync(`${tmpdir()}/agentzip-test-`), 'prefetch');
  files = new ModelFiles(folder);
});
afterEach(() => rmSync(join(folder, '..'), { recursive: true }));

/** A model that knows one context. */
function taught(name: string): PrefetchModel {
  const model = new PrefetchModel();
  model.table.add(hashOf(name), true, 3);
  model.weights[2] = 0.75;
  return model;
}

const knows = (model: PrefetchModel | null, name: string): boolean =>
  model !== null && model.table.find(hashOf(name)) >= 0;

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof AgentZipError) return `${error.code}: ${error.details.reason}`;
    throw error;
  }
  return 'no error';
}

const onlyFile = (): string => join(folder, readdirSync(folder)[0]);

test('what is written comes back, for root alone, and leaves nothing else behind', () => {
  expect(files.load('one')).toBeNull();
  const model = taught('a');
  files.save('one', model);
  const back = new ModelFiles(folder).load('one') as PrefetchModel;
  expect(back.weights).toEqual(model.weights);
  expect(back.table.columns).toEqual(model.table.columns);
  expect(readdirSync(folder)).toHaveLength(1);
  expect(statSync(onlyFile()).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
});

test.each([
  ['a flipped bit', (bytes: Buffer) => (bytes[5000] ^= 1), 'AZ_MODEL_INVALID: it is damaged'],
  [
    'another version',
    (bytes: Buffer) => bytes.writeUInt32LE(99, 4),
    'AZ_MODEL_INVALID: another version wrote it',
  ],
  ['another kind of file', (bytes: Buffer) => bytes.write('ELF!'), 'AZ_MODEL_INVALID: it is no model'],
])('%s is refused', (_, damage, code) => {
  files.save('one', taught('a'));
  const bytes = readFileSync(onlyFile());
  damage(bytes);
  writeFileSync(onlyFile(), bytes);
  expect(codeOf(() => files.load('one'))).toBe(code);
});

test.each([0, 3, 11, 100])('a file that ends after %i bytes is refused', (length) => {
  files.save('one', taught('a'));
  writeFileSync(onlyFile(), readFileSync(onlyFile()).subarray(0, length));
  expect(codeOf(() => files.load('one'))).toMatch(/^AZ_MODEL_INVALID/);
});

test('a file put in the place of another key’s is refused', () => {
  files.save('tenant-1', taught('a'));
  const bytes = readFileSync(onlyFile());
  files.save('tenant-2', taught('b'));
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), bytes);
  expect(codeOf(() => files.load('tenant-2'))).toBe('AZ_MODEL_INVALID: it is of other sandboxes');
  expect(knows(files.load('tenant-1'), 'a')).toBe(true);
});

test('of many files the ones written last are kept', () => {
  for (let i = 0; i < 66; i++) {
    files.save(`${i}`, taught('a'));
    for (const name of readdirSync(folder)) {
      const path = join(folder, name);
      utimesSync(path, statSync(path).mtimeMs / 1000 - 10, statSync(path).mtimeMs / 1000 - 10);
    }
  }
  expect(readdirSync(folder)).toHaveLength(64);
  expect(files.load('0')).toBeNull();
  expect(files.load('65')).not.toBeNull();
});

const sandbox = (domain: string, template?: string) => ({ domain, spec: { template } });

test('sandboxes of a trust domain and template share a model; no others do', () => {
  const models = new Models(files);
  const one = models.of(sandbox('acme/python', 'python'));
  expect(models.of(sandbox('acme/python', 'python'))).toBe(one);
  for (const other of [sandbox('rival/python', 'python'), sandbox('acme/python', 'node'), sandbox(':box')]) {
    expect(models.of(other).model).not.toBe(one.model);
  }
});

test('a damaged file costs what was learnt, is told of, and is replaced', () => {
  const first = new Models(files);
  const learnt = first.of(sandbox('acme/python', 'python'));
  learnt.model.table.add(hashOf('a'), true, 3);
  learnt.unsaved++;
  first.saveAll();
  writeFileSync(onlyFile(), 'garbage');
  const models = new Models(files);
  const again = models.of(sandbox('acme/python', 'python'));
  expect(knows(again.model, 'a')).toBe(false);
  expect(models.alerts).toMatchObject([{ code: 'AZ_MODEL_INVALID' }]);
  again.model.table.add(hashOf('b'), true, 3);
  again.unsaved++;
  models.saveAll();
  expect(knows(new Models(files).of(sandbox('acme/python', 'python')).model, 'b')).toBe(true);
});

test('a folder that can not be written costs nothing but a warning', () => {
  writeFileSync(folder, 'a file in its place');
  const models = new Models(files);
  const learnt = models.of(sandbox('acme/python', 'python'));
  learnt.unsaved++;
  models.saveAll();
  expect(models.alerts.map(({ code }) => code)).toContain('AZ_MODEL_WRITE');
});
