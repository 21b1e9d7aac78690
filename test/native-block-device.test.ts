import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { answered, inflight } from '../src/native/block-device.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-block-device-`);
});
afterEach(() => rmSync(folder, { recursive: true }));

test('a device counts what it has answered, and waits for nothing once it has', () => {
  const file = `${folder}/disk`;
  writeFileSync(file, '');
  truncateSync(file, 1 << 20);
  const device = execFileSync('losetup', ['--find', '--show', file], { encoding: 'utf8' }).trim();
  try {
    const before = answered(device);
    execFileSync('dd', [`if=${device}`, 'of=/dev/null', 'iflag=direct', 'bs=64k', 'count=4'], {
      stdio: 'ignore',
    });
    expect(answered(device)).toBeGreaterThanOrEqual(before + 4);
    expect(inflight(device)).toEqual({ reads: 0, writes: 0 });
  } finally {
    execFileSync('losetup', ['--detach', device]);
  }
});

test('of a device that has gone there is nothing: whoever watches it goes on', () => {
  expect(answered(`${folder}/gone`)).toBe(0);
  expect(inflight(`${folder}/gone`)).toEqual({ reads: 0, writes: 0 });
});
