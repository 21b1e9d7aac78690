import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';

/** The compiler the committed objects come from: Debian 12's. Another one may well give other bytes. */
const COMPILER = 'Debian clang version 14.0.6';

function otherCompiler(): string | null {
  let found: string;
  try {
    found = execFileSync('clang', ['--version'], { encoding: 'utf8', timeout: 30_000 }).split('\n')[0];
  } catch {
    found = 'no clang';
  }
  if (found.startsWith(COMPILER)) return null;
  const message = `the BPF objects are not compared here: needs ${COMPILER}, found ${found}`;
  if (process.env.CI) throw new Error(message);
  process.stderr.write(`SKIPPED: ${message}\n`);
  return message;
}

describe.skipIf(otherCompiler() !== null)('the committed BPF objects', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'agentzip-bpf-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const objectsIn = (path: string): Map<string, string> =>
    new Map(
      readdirSync(path)
        .filter((name) => name.endsWith('.o'))
        .map((name) => [name, readFileSync(join(path, name), 'base64')]),
    );

  it('are what their sources compile to', () => {
    execFileSync('sh', ['deploy/build-bpf.sh', folder], { cwd: packageRoot, timeout: 60_000 });
    expect(objectsIn(folder)).toEqual(objectsIn(join(packageRoot, 'bpf')));
  });

  it('have the same bytes when the checkout lies in another folder', () => {
    const checkout = join(folder, 'elsewhere', 'checkout');
    for (const part of ['bpf', 'deploy'])
      cpSync(join(packageRoot, part), join(checkout, part), { recursive: true });
    const out = join(folder, 'out');
    mkdirSync(out);
    execFileSync('sh', [join(checkout, 'deploy/build-bpf.sh'), 'out'], { cwd: folder, timeout: 60_000 });
    const built = objectsIn(out);
    expect(built.size).toBeGreaterThan(0);
    expect(built).toEqual(objectsIn(join(packageRoot, 'bpf')));
  });

  // A BPF program sees registers of the machine only through pt_regs, and system calls by number: the first is looked up in the
  // kernel's BTF at load, as all its types are, and no number is used. Else there would have to be an object for each.
  it.each(['x86', 'arm64'])('are the same for %s', (architecture) => {
    execFileSync('sh', ['deploy/build-bpf.sh', folder], {
      cwd: packageRoot,
      timeout: 60_000,
      env: { ...process.env, AGENTZIP_BPF_ARCH: architecture },
    });
    expect(objectsIn(folder)).toEqual(objectsIn(join(packageRoot, 'bpf')));
  });

  it('are for little-endian BPF, not for a processor', () => {
    const EM_BPF = 247;
    const LITTLE_ENDIAN = 1;
    for (const [name, bytes] of objectsIn(join(packageRoot, 'bpf'))) {
      const header = Buffer.from(bytes, 'base64');
      expect([name, header.readUInt16LE(18), header[5]]).toEqual([name, EM_BPF, LITTLE_ENDIAN]);
    }
  });

  it('name no folder of the machine they were compiled on', () => {
    for (const [name, bytes] of objectsIn(join(packageRoot, 'bpf'))) {
      const text = Buffer.from(bytes, 'base64').toString('latin1');
      expect(text.includes(packageRoot.replace(/\/$/, '')), name).toBe(false);
    }
  });
});
