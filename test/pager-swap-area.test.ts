import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, ftruncateSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { swapoff } from '../src/native/system.js';
import { attachLoop, type LoopDevice } from '../src/pager/fuse/loop-device.js';
import { activateSwap } from '../src/pager/swap/swap-area.js';

const PAGES = 1024;
let folder: string;
let loop: LoopDevice;

beforeEach(() => {
  folder = mkdtempSync('/var/tmp/agentzip-test-');
  const file = openSync(`${folder}/area`, 'w+', 0o600);
  ftruncateSync(file, PAGES * 4096);
  loop = attachLoop(file);
  closeSync(file);
});
afterEach(async () => {
  if (readFileSync('/proc/swaps', 'utf8').includes(`${loop.path} `)) await swapoff(loop.path);
  loop.close();
  rmSync(folder, { recursive: true });
});

test('a device that is swap already is refused and not written to', async () => {
  await activateSwap(loop.path, PAGES);
  expect(readFileSync('/proc/swaps', 'utf8')).toMatch(new RegExp(`^${loop.path} .*\\s32767$`, 'm'));
  const before = readFileSync(`${folder}/area`).subarray(0, 4096);
  await expect(activateSwap(loop.path, PAGES)).rejects.toMatchObject({
    code: 'AZ_SWAP_BUSY',
    remedy: `stop what uses it: swapoff ${loop.path}`,
  });
  expect(readFileSync(`${folder}/area`).subarray(0, 4096)).toEqual(before);
});
