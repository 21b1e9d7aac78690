import { expect, test } from 'vitest';
import { NameTable } from '../src/store/names.js';

const RECORDS = 600;
const RECORD_BYTES = 512;

test('names and their numbers are there for the next process, also beyond a byte’s worth of them', () => {
  const bytes = new Uint8Array(RECORDS * RECORD_BYTES);
  const table = new NameTable(bytes, RECORDS);
  const long = 'n'.repeat(400);
  expect(table.add(long)).toBe(1);
  for (let i = 2; i <= 300; i++) expect(table.add(`name ${i}`)).toBe(i);
  table.remove(256);
  const next = new NameTable(bytes, RECORDS);
  expect(next.find(long)).toBe(1);
  expect([next.find('name 255'), next.find('name 256'), next.find('name 300')]).toEqual([255, 0, 300]);
  expect(next.add('new')).toBe(256);
});

test('a record whose length was not stored yet is free', () => {
  const bytes = new Uint8Array(RECORDS * RECORD_BYTES);
  new NameTable(bytes, RECORDS).add('whole');
  bytes.set(new TextEncoder().encode('cut off'), 2 * RECORD_BYTES + 2);
  const next = new NameTable(bytes, RECORDS);
  expect(next.size).toBe(1);
  expect(next.add('other')).toBe(2);
  expect(new NameTable(bytes, RECORDS).name(2)).toBe('other');
});
