import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';

/** Rooms that a room may import from, besides itself. Both lists together are the architecture; add to them on purpose. */
const ALLOWED: Record<string, readonly string[]> = {
  // Whose turn it is: pager and controller must not know each other, and both serve many windows.
  schedule: [],
  native: [],
  codec: ['native'],
  store: ['codec', 'native'],
  pager: ['schedule', 'store', 'codec', 'native'],
  policy: [],
  otel: [],
  memory: ['native'],
  telemetry: ['schedule', 'native'],
  hosts: ['memory'],
  controller: ['schedule', 'hosts', 'telemetry', 'memory', 'policy', 'otel'],
  plugin: ['controller', 'policy', 'otel'],
  cli: ['plugin', 'bench'],
  bench: ['memory', 'native', 'otel'],
};

/** Single files that may be imported across the rules above, by whom, and why. */
const EXCEPTIONS: readonly [from: RegExp, to: RegExp, why: string][] = [
  [/^controller\//, /^pager\/(client|protocol|start)\.ts$/, 'the pager is reached through its client alone'],
  [/^controller\//, /^store\/(pack|memory-pack|memory-source)\.ts$/, 'a template is captured into a pack'],
  [/^controller\//, /^native\/libc\.ts$/, 'the size of a page'],
  [
    /^controller\/(templates\/capture|sandboxes\/member)\.ts$/,
    /^native\/(errno|files|process)\.ts$/,
    'pidfds and reads of processes',
  ],
  [
    /^controller\/(prefetch\/model-file|sandboxes\/pauses)\.ts$/,
    /^native\/atomic-file\.ts$/,
    'files that are whole or not there',
  ],
  [/^plugin\/drain\.ts$/, /^pager\/client\.ts$/, 'drains the pager of a dead controller'],
  [
    /^plugin\/doctor\/devices\.ts$/,
    /^pager\/front-end-choice\.ts$/,
    'says which front end the pager would take',
  ],
  [/^plugin\/doctor\/tiers\.ts$/, /^pager\/swap\/tier-choice\.ts$/, 'says which tiers the pager could take'],
  [
    /^plugin\/doctor\/probes\.ts$/,
    /^telemetry\/(probes|phase-watch)\.ts$/,
    'says which probes this kernel takes',
  ],
  [/^bench\/systems\/table\.ts$/, /^pager\/swap\/tier-choice\.ts$/, 'says which tiers this host can have'],
  [/^plugin\/drain-progress\.ts$/, /^memory\/swap\.ts$/, 'how much of a device is left to drain'],
  [/^plugin\/service-manager\.ts$/, /^native\/notify\.ts$/, 'tells systemd'],
  [/^plugin\/lock\.ts$/, /^native\/files\.ts$/, 'file locks'],
  [/^plugin\/doctor\/kernel\.ts$/, /^native\/(files|process)\.ts$/, 'tries process_madvise'],
  [/^bench\//, /^(plugin\/client|controller\/api)\.ts$/, 'the bench is a host: it sees what hosts see'],
  [
    /^bench\/detect\//,
    /^(telemetry\/.*|schedule\/clock|policy\/defaults)\.ts$/,
    'what the probes find out is measured without a pager',
  ],
  [/^bench\/replay\//, /^(store|codec)\//, 'a replay drives the store without the pager'],
  [
    /^bench\/replay\//,
    /^(controller\/(claims\/(address|domain)|templates\/capture)|pager\/protocol|policy\/defaults)\.ts$/,
    "dumps and replays follow the product's own rules and settings",
  ],
];

/** Files outside the rooms: everyone may import the first two; the last is what the package exports. */
const COMMON = ['errors.ts', 'paths.ts'];
const ENTRY = 'index.ts';
const ENTRY_ROOMS = ['plugin', 'controller', 'policy'];

type Import = [from: string, to: string];
const room = (file: string): string => file.split('/')[0];

/** Relative imports of a source, `import type` and `import()` among them, as files below src. */
function importsOf(file: string, text: string): Import[] {
  const { importedFiles } = ts.preProcessFile(text, true, true);
  return importedFiles
    .map(({ fileName }) => fileName)
    .filter((name) => name.startsWith('.'))
    .map((name) => [file, posix.normalize(posix.join(posix.dirname(file), name)).replace(/\.js$/, '.ts')]);
}

function isAllowed([from, to]: Import): boolean {
  if (to.startsWith('../')) return false;
  if (COMMON.includes(to) || (room(from) === room(to) && from.includes('/'))) return true;
  if (from === ENTRY) return ENTRY_ROOMS.includes(room(to)) || COMMON.includes(to);
  if (COMMON.includes(from)) return false;
  const allowed = ALLOWED[room(from)]?.includes(room(to)) ?? false;
  return allowed || EXCEPTIONS.some(([a, b]) => a.test(from) && b.test(to));
}

/** A way from a room back to itself, or null. */
function cycleOf(imports: readonly Import[]): string[] | null {
  const next = new Map<string, Set<string>>();
  for (const [from, to] of imports) {
    if (!from.includes('/') || !to.includes('/') || room(from) === room(to)) continue;
    next.set(room(from), (next.get(room(from)) ?? new Set()).add(room(to)));
  }
  const done = new Set<string>();
  const walk = (here: string, path: string[]): string[] | null => {
    if (path.includes(here)) return [...path.slice(path.indexOf(here)), here];
    if (done.has(here)) return null;
    for (const there of next.get(here) ?? []) {
      const cycle = walk(there, [...path, here]);
      if (cycle) return cycle;
    }
    done.add(here);
    return null;
  };
  for (const start of next.keys()) {
    const cycle = walk(start, []);
    if (cycle) return cycle;
  }
  return null;
}

// The page kernels are another language that only looks like TypeScript; they import nothing.
const files = readdirSync(join(packageRoot, 'src'), { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !file.startsWith('codec/kernels/'),
);
const imports = files.flatMap((file) =>
  importsOf(file, readFileSync(join(packageRoot, 'src', file), 'utf8')),
);

describe('imports between rooms', () => {
  it('go one way only', () => {
    expect(files.length).toBeGreaterThan(50);
    expect(
      imports.filter((entry) => !isAllowed(entry)).map(([from, to]) => `${from} must not import ${to}`),
    ).toEqual([]);
  });

  it('have no cycle', () => {
    expect(cycleOf(imports)).toBeNull();
  });

  it('lead to rooms that are known', () => {
    const rooms = new Set(files.filter((file) => file.includes('/')).map(room));
    expect([...rooms].filter((name) => !(name in ALLOWED))).toEqual([]);
  });

  it('need every exception', () => {
    const unused = EXCEPTIONS.filter(([a, b]) => !imports.some(([from, to]) => a.test(from) && b.test(to)));
    expect(unused.map(([, , why]) => why)).toEqual([]);
  });
});

describe('the check itself', () => {
  it.each([
    ['controller/window.ts', "import { Store } from '../store/store.js';"],
    ['controller/window.ts', "import { DataLoop } from '../pager/data-loop.js';"],
    ['policy/load.ts', "import type { Telemetry } from '../otel/telemetry.js';"],
    ['memory/vmas.ts', "const { Probes } = await import('../telemetry/probes.js');"],
    ['store/store.ts', "export * from '../pager/client.js';"],
    ['plugin/server.ts', "import { tryLock } from '../native/files.js';"],
    ['bench/run.ts', "import { createController } from '../controller/controller.js';"],
    ['errors.ts', "import { loadPolicy } from './policy/load.js';"],
    ['cli/run.ts', "import { helper } from '../../test/support/seed.js';"],
  ])('reports a wrong import in %s: %s', (file, text) => {
    const found = importsOf(file, text);
    expect(found).toHaveLength(1);
    expect(found.filter((entry) => !isAllowed(entry))).toEqual(found);
  });

  it.each([
    ['plugin/lock.ts', "import { tryLock } from '../native/files.js';"],
    ['policy/load.ts', "import { AgentZipError } from '../errors.js';"],
    ['controller/window.ts', "import { PagerClient } from '../pager/client.js';"],
    ['store/store.ts', "import { Arena } from './arena.js';"],
  ])('lets a right import in %s pass: %s', (file, text) => {
    expect(importsOf(file, text).every(isAllowed)).toBe(true);
  });

  it('finds a cycle', () => {
    const loop: Import[] = [
      ['hosts/a.ts', 'memory/b.ts'],
      ['memory/b.ts', 'native/c.ts'],
      ['native/c.ts', 'hosts/d.ts'],
    ];
    expect(cycleOf(loop)).toEqual(['hosts', 'memory', 'native', 'hosts']);
    expect(cycleOf(loop.slice(0, 2))).toBeNull();
  });
});
