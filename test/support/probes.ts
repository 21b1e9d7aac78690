import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/paths.js';

/** The probes, compiled into `folder` with texts in the names of what they attach to replaced. Returns the object's path. */
export function compileProbes(
  folder: string,
  name: string,
  ...replacements: readonly (readonly [from: string, to: string])[]
): string {
  for (const file of ['sandbox.bpf.c', 'traffic.h', 'entering.h', 'kernel.h']) {
    let source = readFileSync(`${packageRoot}/bpf/${file}`, 'utf8');
    for (const [from, to] of replacements) source = source.replaceAll(from, to);
    writeFileSync(join(folder, file), source);
  }
  const object = join(folder, `${name}.bpf.o`);
  const flags = ['-g', '-O2', '-target', 'bpfel'];
  execFileSync('clang', [...flags, '-c', join(folder, 'sandbox.bpf.c'), '-o', object], { timeout: 30_000 });
  return object;
}
