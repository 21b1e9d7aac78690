import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { EVENT_TYPES } from '../src/controller/api.js';
import { METRICS, SPANS } from '../src/otel/names.js';
import { packageRoot } from '../src/paths.js';
import { CAPABILITIES } from '../src/plugin/doctor/privileges.js';
import { routeNames } from '../src/plugin/routes.js';
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
