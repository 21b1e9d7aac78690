import { existsSync, statSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { TemplateAddresses } from '../src/controller/claims/address.js';
import { capture } from '../src/controller/templates/capture.js';
import type { CapturedTemplates } from '../src/controller/templates/captured-templates.js';
import { Templates } from '../src/controller/templates/templates.js';
import { identify, type ProcessId } from '../src/memory/process.js';
import { readVmas } from '../src/memory/vmas.js';
import { PAGE } from '../src/native/libc.js';
import type { PagerClient } from '../src/pager/client.js';
import { NO_TEMPLATE_PAGE } from '../src/pager/protocol.js';
import { readPackRegions } from '../src/store/pack.js';
import { Bench } from './support/controller.js';
import { HostLayout } from './support/host-layout.js';
import { testRandom } from './support/seed.js';

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start({ loadPack: ({ path }) => ({ pack: path.length, pages: 0, distinctPages: 5 }) });
});
afterEach(() => bench.stop());

test('a captured page has the bytes of the process, at its template address', async () => {
  const python = await bench.python();
  const address = await python.area(600);
  await python.run('touch(0, 3, 500, 7)');
  const captured = capture(identify(python.pid) as ProcessId)!;
  const vmas = readVmas(python.pid, { flags: false });
  const vma = vmas.find(({ start, end }) => address >= start && address < end)!;
  const map = new TemplateAddresses(captured.regions).mapper(vmas);
  const wanted = map(vma, address / PAGE + 300);
  expect(wanted).not.toBe(NO_TEMPLATE_PAGE);
  let pages = 0;
  let found: Uint8Array | undefined;
  for await (const { templatePage, bytes } of captured.pages) {
    pages++;
    if (templatePage === wanted) found = bytes.slice();
  }
  expect(pages).toBeGreaterThan(500);
  expect([found?.[0], found?.[8], found?.[16]]).toEqual([7, 300 & 255, 0]);
});

test('a fork finds its pages in the template of its parent', async () => {
  const python = await bench.python();
  const address = await python.area(64);
  await python.run('touch(0, 0, 64)');
  const { regions } = capture(identify(python.pid) as ProcessId)!;
  const child = Number(await python.run('fork()'));
  const vmas = readVmas(child, { flags: false });
  const vma = vmas.find(({ start, end }) => address >= start && address < end)!;
  expect(new TemplateAddresses(regions).mapper(vmas)(vma, address / PAGE + 1)).not.toBe(NO_TEMPLATE_PAGE);
});

test('a pack is written for its owner only, and read back when it is given', async () => {
  const python = await bench.python();
  const template = await bench.controller.putTemplate('python', { pid: python.pid, tenant: 'acme' });
  expect(template).toMatchObject({ id: 'python', tenant: 'acme', public: false, distinctPages: 5 });
  const path = `${bench.folder}/templates/python.pack`;
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(`${bench.folder}/templates`).mode & 0o777).toBe(0o700);
  expect(readPackRegions(path).meta).toEqual({ id: 'python', tenant: 'acme', public: false });
  const again = await bench.controller.putTemplate('other', { pack: path });
  expect(again).toMatchObject({ tenant: 'acme', pages: template.pages });
});

test('a page of a machine has the template address that it has in its memory file, in whichever mapping', async () => {
  const layout = new HostLayout();
  try {
    const memoryFile = layout.file('base.mem', testRandom('memory-file').bytes(64 * PAGE));
    const { pages } = await bench.controller.putTemplate('machine', { memoryFile, tenant: 'acme' });
    expect(pages).toBe(64);
    const { regions } = readPackRegions(`${bench.folder}/templates/machine.pack`);
    const vmm = await layout.start('firecracker', []);
    // Guest memory below and above the hole for devices: two mappings of one file.
    const low = Number(await vmm.ask(`map_private('${memoryFile}', 0, 16)`));
    const high = Number(await vmm.ask(`map_private('${memoryFile}', ${32 * PAGE}, 32)`));
    const other = Number(await vmm.ask('map_anonymous(16)'));
    const vmas = readVmas(vmm.pid, { flags: true });
    const map = new TemplateAddresses(regions).mapper(vmas);
    const at = (address: number) =>
      map(
        vmas.find(({ start, end }) => address >= start && address < end)!,
        address / PAGE,
      );
    expect([at(low), at(low + 15 * PAGE), at(high), at(high + 31 * PAGE)]).toEqual([0, 15, 32, 63]);
    expect(at(other)).toBe(NO_TEMPLATE_PAGE);
    expect(existsSync(`${bench.folder}/templates/machine.pack.mem`)).toBe(true);
    // The next controller finds it made already.
    const made = statSync(`${bench.folder}/templates/machine.pack`).ino;
    const loads = { request: () => Promise.resolve({ pack: 1, distinctPages: 0 }) } as unknown as PagerClient;
    const captured = {} as CapturedTemplates;
    const next = new Templates(loads, `${bench.folder}/templates`, () => {}, captured);
    const { path } = await next.put('machine', { memoryFile, tenant: 'acme' }, false);
    expect([path, statSync(path).ino]).toEqual([`${bench.folder}/templates/machine.pack`, made]);
    await bench.controller.putTemplate('machine', { memoryFile, public: true });
    expect(bench.pager.asked).toEqual(['loadPack', 'unloadPack', 'loadPack']);
    expect(existsSync(`${bench.folder}/templates/machine.1.pack.mem`)).toBe(false);
    expect(existsSync(memoryFile)).toBe(true);
  } finally {
    await layout.stop();
  }
});

test('a pack of another tenant is refused', async () => {
  const python = await bench.python();
  await bench.controller.putTemplate('python', { pid: python.pid, tenant: 'acme' });
  const pack = `${bench.folder}/templates/python.pack`;
  const put = bench.controller.putTemplate('stolen', { pack, tenant: 'other' });
  await expect(put).rejects.toMatchObject({ code: 'AZ_PACK_INVALID' });
});

test('a template in use stays as it is', async () => {
  const python = await bench.python();
  const spec = { pid: python.pid, public: true };
  await bench.controller.putTemplate('python', spec);
  await bench.controller.putSandbox('one', { pids: [python.pid], template: 'python' });
  await bench.controller.putTemplate('python', spec);
  const put = bench.controller.putTemplate('python', { pid: python.pid, public: false });
  await expect(put).rejects.toMatchObject({ code: 'AZ_TEMPLATE_IN_USE' });
});

test('a template that nobody uses is replaced, and its old pack goes', async () => {
  const python = await bench.python();
  await bench.controller.putTemplate('python', { pid: python.pid });
  await bench.controller.putTemplate('python', { pid: python.pid, public: true });
  expect(bench.pager.asked).toEqual(['loadPack', 'unloadPack', 'loadPack']);
  expect(existsSync(`${bench.folder}/templates/python.1.pack`)).toBe(false);
});

test.each([
  ['an id that is no file name', '../evil', { pid: 1 }, 'AZ_BAD_REQUEST'],
  ['neither pid nor pack', 'a', {}, 'AZ_BAD_REQUEST'],
  ['both', 'a', { pid: 1, pack: '/x' }, 'AZ_BAD_REQUEST'],
  ['a pack and a memory file', 'a', { memoryFile: '/y', pack: '/x' }, 'AZ_BAD_REQUEST'],
  ['a memory file that is not there', 'a', { memoryFile: '/nowhere/base.mem' }, 'AZ_PACK_INVALID'],
  ['a pid of no process', 'a', { pid: 2 ** 22 + 1 }, 'AZ_NO_SUCH_PROCESS'],
  ['AgentZip itself', 'a', { pid: process.pid }, 'AZ_OWN_PROCESS'],
  ['a pack that is not there', 'a', { pack: '/nowhere/x.pack' }, 'AZ_PACK_INVALID'],
])('%s is refused', async (_what, id, spec, code) => {
  await expect(bench.controller.putTemplate(id, spec)).rejects.toMatchObject({ code });
});

test('a template that nobody uses is dropped with what was captured for it, one in use is not', async () => {
  const python = await bench.python();
  await bench.controller.putTemplate('python', { pid: python.pid, public: true });
  const pack = `${bench.folder}/templates/python.pack`;
  await bench.controller.putTemplate('given', { pack });
  await bench.controller.putSandbox('one', { pids: [python.pid], template: 'python' });
  await expect(bench.controller.deleteTemplate('python')).rejects.toMatchObject({
    code: 'AZ_TEMPLATE_IN_USE',
  });
  await bench.controller.deleteTemplate('given');
  expect(existsSync(pack)).toBe(true);
  await bench.controller.deleteSandbox('one');
  await bench.controller.deleteTemplate('python');
  expect(existsSync(pack)).toBe(false);
  expect((await bench.controller.status()).templates).toEqual([]);
  await expect(bench.controller.deleteTemplate('python')).rejects.toMatchObject({
    code: 'AZ_UNKNOWN_TEMPLATE',
  });
});

test('the status tells how far a capture is, and nothing of it once it is over', async () => {
  const python = await bench.python();
  await python.area(6000);
  await python.run('touch(0, 0, 6000)');
  let over = false;
  const putting = bench.controller.putTemplate('big', { pid: python.pid }).finally(() => (over = true));
  const seen: number[] = [];
  while (!over) {
    for (const { id, pages, totalPages } of (await bench.controller.status()).captures) {
      expect(id).toBe('big');
      expect(totalPages).toBeGreaterThan(6000);
      expect(pages).toBeLessThanOrEqual(totalPages);
      seen.push(pages);
    }
  }
  await putting;
  expect(seen).toEqual([...seen].sort((a, b) => a - b));
  expect(new Set(seen).size).toBeGreaterThan(1);
  expect((await bench.controller.status()).captures).toEqual([]);
});
