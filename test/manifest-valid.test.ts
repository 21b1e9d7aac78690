import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { EVENT_TYPES } from '../src/controller/api.js';
import { METRICS, SPANS } from '../src/otel/names.js';
import { packageRoot } from '../src/paths.js';
import { schemaAt } from '../src/policy/schema.js';
import { agentzip } from './support/command.js';
import { CAPABILITIES } from '../src/plugin/doctor/privileges.js';
import { routeNames } from '../src/plugin/routes.js';
import { MANIFEST, readManifest } from '../src/plugin/manifest.js';
import { controlSocket, DEFAULT_RUNTIME_DIR, pagerSocket } from '../src/plugin/runtime-files.js';

const json = (path: string) => JSON.parse(readFileSync(join(packageRoot, path), 'utf8'));
const manifest = json('plugin-manifest.json');
const packageJson = json('package.json');

describe('plugin-manifest.json', () => {
  const validate = new Ajv({ strict: true }).compile(json('src/plugin/manifest.schema.json'));

  it('is valid', () => {
    expect(validate(manifest), JSON.stringify(validate.errors)).toBe(true);
  });

  it.each([
    ['a key is missing', { ...manifest, entry: undefined }],
    ['a key is unknown', { ...manifest, colour: 'red' }],
    ['a version is none', { ...manifest, version: 'latest' }],
    ['a path leaves the package', { ...manifest, entry: '/outside.js' }],
    ['a hook calls nothing', { ...manifest, hooks: [{ on: 'x', call: 'somewhere', required: true }] }],
  ])('would not be if %s', (_, wrong) => {
    expect(validate(JSON.parse(JSON.stringify(wrong)))).toBe(false);
  });

  it('agrees with package.json', () => {
    expect(manifest.id).toBe(packageJson.name);
    expect(manifest.version).toBe(packageJson.version);
    expect(manifest.engines.node).toBe(packageJson.engines.node);
    expect(manifest.entry).toBe(packageJson.main);
    expect(manifest.command).toBe(packageJson.bin.agentzip);
    expect(manifest.platform.os).toEqual(packageJson.os);
  });

  it('names files that exist, in the source or once built from it', () => {
    const source = (path: string) => path.replace(/^dist\/(.*)\.js$/, 'src/$1.ts');
    const references = manifest.sockets.flatMap(({ reference }: { reference?: string }) => reference ?? []);
    for (const path of [manifest.entry, manifest.command, manifest.config.schema, ...references]) {
      expect(existsSync(join(packageRoot, source(path))), path).toBe(true);
    }
    expect(existsSync(join(packageRoot, manifest.$schema))).toBe(true);
  });

  it('hooks every event, and calls routes that exist', () => {
    const events = manifest.hooks.flatMap(({ event }: { event?: string }) => event ?? []);
    expect(events).toEqual([...EVENT_TYPES]);
    const calls = manifest.hooks.map(({ call }: { call: string }) => call);
    expect(routeNames).toEqual(expect.arrayContaining([...calls, manifest.lifecycle.health]));
    expect(routeNames).toContain(manifest.telemetry.prometheus);
  });

  it('asks for the capabilities that the doctor looks for', () => {
    for (const level of ['required', 'optional'] as const) {
      const names = CAPABILITIES.filter((capability) => capability.level === level).map(({ name }) => name);
      expect(manifest.capabilities[level]).toEqual(names);
    }
  });

  it('names the sockets, spans and metrics there are', () => {
    expect(manifest.sockets.map(({ path }: { path: string }) => path)).toEqual([
      controlSocket(DEFAULT_RUNTIME_DIR),
      pagerSocket(DEFAULT_RUNTIME_DIR),
    ]);
    expect(manifest.telemetry.spans).toEqual(Object.values(SPANS));
    expect(manifest.telemetry.metrics).toEqual(Object.values(METRICS).map(({ name }) => name));
  });
});

/** What changes the host or keeps something, as calls in the source; opening to read is neither. */
const ACTS =
  /\b(?:writeFileSync|writeFile|new AtomicFile|AtomicFile\.write|netlink\.request|mkdirSync|renameSync|chownSync|chmodSync|swapon|mount|fsmount|ioctl|prctl|mlockall|schedule\(gettid|setThreadPriority|memfdCreate|object\.attach)\(|\bopenSync\([^,]+, '(?:w|a|r\+)|\bschedule\(tid,/;
/** Rooms that run on a host; `native` only binds, the doctor only tries, and phase-watch schedules a timer. */
const ROOMS = ['memory', 'pager', 'controller', 'plugin', 'telemetry', 'store', 'hosts', 'otel', 'policy'];

function acting(): string[] {
  return ROOMS.flatMap((room) =>
    readdirSync(join(packageRoot, 'src', room), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.startsWith('doctor'))
      .map((file) => `src/${room}/${file}`)
      .filter((file) => ACTS.test(readFileSync(join(packageRoot, file), 'utf8'))),
  );
}

describe('the manifest and the code', () => {
  it('agree about every file that changes the host or keeps something', () => {
    const { changes, privacy } = readManifest();
    const named = [...changes, ...privacy.stores].flatMap(({ sources }) => sources);
    expect(acting().sort()).toEqual([...named].sort());
  });

  it('agree about each path that is written below /sys and /proc', () => {
    const written = acting().flatMap((file) => {
      const text = readFileSync(join(packageRoot, file), 'utf8');
      const writes = [...text.matchAll(/writeFileSync\(\s*[`']?(\/(?:sys|proc)[^`',]*|\$\{ROOT\})/g)];
      return writes.map(([, path]) => (path.startsWith('$') ? '/sys/fs/cgroup' : path));
    });
    expect(new Set(written)).toEqual(new Set(['/proc/self/oom_score_adj', '/sys/fs/cgroup']));
    const where = readManifest()
      .changes.map((change) => change.where)
      .join();
    for (const path of written) expect(where).toContain(path);
  });

  it('agree about what an operator must undo: docs/operating.md says it too', () => {
    const page = readFileSync(join(packageRoot, 'docs/operating.md'), 'utf8');
    const left = readManifest().changes.filter(({ undoneBy }) => undoneBy === 'operator');
    expect(left.map(({ undo }) => undo)).not.toContain(undefined);
    for (const { undo } of left) expect(page).toContain((undo as string).split('/').pop());
  });

  it('agree about hazards, adapters and front ends', () => {
    const { hazards, hosts, actuators } = readManifest();
    const adapter = readFileSync(join(packageRoot, 'src/hosts/adapter.ts'), 'utf8');
    const [, union] = /export type Hazard =([^;]+);/.exec(adapter) as RegExpExecArray;
    const known = [...union.matchAll(/'(\w+)'/g)].map(([, name]) => name);
    expect(hazards.map(({ name }) => name).sort()).toEqual(known.sort());
    for (const host of hosts) expect(known).toEqual(expect.arrayContaining(host.hazards));
    const sources = readdirSync(join(packageRoot, 'src/hosts'), { recursive: true, encoding: 'utf8' });
    const adapters = sources
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => {
        const text = readFileSync(join(packageRoot, 'src/hosts', file), 'utf8');
        return [...text.matchAll(/\breadonly name = '([\w-]+)'/g)].map(([, name]) => name);
      });
    expect(hosts.map(({ name }) => name)).toEqual(expect.arrayContaining(adapters));
    const names = actuators.map(({ name }) => name);
    const frontEnds = (schemaAt(['pager', 'frontEnd'])?.enum ?? []).filter((name) => name !== 'auto');
    expect(frontEnds).toContain('fuse-loop');
    expect(names).toEqual(expect.arrayContaining(frontEnds));
    const calls = readFileSync(join(packageRoot, 'src/native/process.ts'), 'utf8');
    for (const call of names.filter((name) => name.startsWith('process_')))
      expect(calls.toLowerCase()).toContain(call.replace('process_', ''));
  });

  it('agree about what the doctor looks for', () => {
    const { needs, wants } = manifest.detect;
    const devices = [...needs, ...wants].map(({ path }: { path: string }) => path);
    expect(devices).toEqual(expect.arrayContaining(manifest.devices));
    expect(manifest.detect.check).toEqual(manifest.lifecycle.check);
    expect(manifest.detect.running).toEqual({
      socket: controlSocket(DEFAULT_RUNTIME_DIR),
      call: manifest.lifecycle.health,
    });
  });
});

describe('agentzip manifest', () => {
  it('prints it, for people and for programs', async () => {
    const text = await agentzip(['manifest']);
    expect([text.code, text.stderr]).toEqual([0, '']);
    for (const { what } of manifest.changes) expect(text.stdout).toContain(what);
    const { stdout } = await agentzip(['manifest', '--json']);
    expect(JSON.parse(stdout)).toEqual(manifest);
  });

  it('checks one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentzip-manifest-'));
    try {
      const file = join(folder, 'manifest.json');
      writeFileSync(file, JSON.stringify(manifest));
      expect(await agentzip(['manifest', '--check', file])).toMatchObject({
        ...{ code: 0, stdout: `agentzip: ${file} is valid\n`, stderr: '' },
      });
      writeFileSync(file, JSON.stringify({ ...manifest, hosts: [] }));
      const wrong = await agentzip(['manifest', '--check', file]);
      expect(wrong.code).toBe(1);
      expect(wrong.stderr).toContain('AZ_MANIFEST');
      expect(wrong.stderr).toMatch(/hosts must NOT have fewer than 1 items/);
      const own = await agentzip(['manifest', '--check']);
      expect([own.code, own.stdout]).toEqual([0, `agentzip: ${MANIFEST} is valid\n`]);
      const missing = await agentzip(['manifest', '--check', `${folder}/none`]);
      expect(missing.stderr).toMatch(/AZ_MANIFEST: .*ENOENT/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
