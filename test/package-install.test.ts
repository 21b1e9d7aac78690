import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot, version } from '../src/paths.js';
import { Service } from './support/service.js';

/** The tarball that npm makes of this checkout, installed into an empty folder as an operator would. */
const INSTALL_MS = 300_000;
const COMMAND_MS = 60_000;
const PACKED_BYTES_MAX = 1_500_000;
const UNPACKED_BYTES_MAX = 4_000_000;

let folder: string;
let installed: string;
let packed: { size: number; unpackedSize: number; files: { path: string }[] };

const npm = (words: string[], cwd: string): string =>
  execFileSync('npm', words, { cwd, encoding: 'utf8', timeout: INSTALL_MS });

const npx = (...words: string[]): string =>
  execFileSync('npx', ['--no-install', 'agentzip', ...words], {
    cwd: folder,
    encoding: 'utf8',
    timeout: COMMAND_MS,
  });

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentzip-package-'));
  // The build that is there: `npm pack` alone would build again, while other tests may use it.
  const answer = npm(['pack', '--ignore-scripts', '--json', '--pack-destination', folder], packageRoot);
  packed = (JSON.parse(answer) as (typeof packed)[])[0];
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  const tarball = `./agentzip-${version}.tgz`;
  npm(['install', tarball, '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund'], folder);
  installed = join(folder, 'node_modules/agentzip');
}, INSTALL_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Files of the built program, in the installed package. */
const programs = (): string[] =>
  readdirSync(join(installed, 'dist'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js'))
    .map((name) => join(installed, 'dist', name));

describe('the package', () => {
  it('is small, and has neither tests, sources, maps nor what builds it', () => {
    const paths = packed.files.map(({ path }) => path);
    expect(paths.length).toBeGreaterThan(300);
    const superfluous = [
      /\.map$/,
      /^test\//,
      /^deploy\/(vm\/|[^/]*$)/,
      /\.pyc$/,
      /(?<!\.d)\.tsx?$/,
      /\.bpf\.c$/,
    ];
    expect(paths.filter((path) => superfluous.some((pattern) => pattern.test(path)))).toEqual([]);
    expect(packed.size).toBeLessThan(PACKED_BYTES_MAX);
    expect(packed.unpackedSize).toBeLessThan(UNPACKED_BYTES_MAX);
  });

  it('has every file that the sources keep beside the code', () => {
    const tracked = execFileSync('git', ['ls-files', 'src'], { cwd: packageRoot, encoding: 'utf8' });
    const data = tracked.split('\n').filter((path) => path !== '' && !/\.tsx?$|tsconfig\.json$/.test(path));
    expect(data.length).toBeGreaterThan(40);
    expect(data.filter((path) => !existsSync(join(installed, path)))).toEqual([]);
  });

  it('finds everything that its programs import', () => {
    const missing: string[] = [];
    for (const program of programs()) {
      const text = readFileSync(program, 'utf8');
      const names = [...text.matchAll(/^(?:import|export)\s[^;]*?from '([^']+)'|import\('([^']+)'\)/gm)];
      for (const name of names.map(([, first, second]) => first ?? second)) {
        if (name.startsWith('node:')) continue;
        const base = /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name;
        const found = name.startsWith('.')
          ? existsSync(resolve(dirname(program), name))
          : (createRequire(program).resolve.paths(name) ?? []).some((path) => existsSync(join(path, base)));
        if (!found) missing.push(`${program}: ${name}`);
      }
    }
    expect(missing).toEqual([]);
  });

  it('says one version everywhere', () => {
    const read = (path: string): string => readFileSync(join(installed, path), 'utf8');
    const versionIn = (path: string): unknown => (JSON.parse(read(path)) as { version: string }).version;
    expect(versionIn('package.json')).toBe(version);
    expect(versionIn('plugin-manifest.json')).toBe(version);
    expect((JSON.parse(read('docs/openapi.json')) as { info: { version: string } }).info.version).toBe(
      version,
    );
    expect(npx('--version').trim()).toBe(version);
  });

  it('can be imported by a host', () => {
    const script = "console.log(typeof (await import('agentzip')).createAgentZip)";
    const words = ['--input-type=module', '-e', script];
    expect(execFileSync(process.execPath, words, { cwd: folder, encoding: 'utf8' })).toBe('function\n');
  });
});

describe('its command', () => {
  it('doctor looks at the host as the checkout does', () => {
    const report = (command: string[]): { id: string; ok: boolean }[] => {
      const answer = JSON.parse(
        execFileSync(command[0], [...command.slice(1), 'doctor', '--json'], {
          cwd: folder,
          encoding: 'utf8',
        }),
      ) as { requirements: { id: string; ok: boolean }[] };
      return answer.requirements.map(({ id, ok }) => ({ id, ok }));
    };
    const ours = report([process.execPath, join(packageRoot, 'dist/cli/main.js')]);
    expect(ours.length).toBeGreaterThan(10);
    expect(report(['npx', '--no-install', 'agentzip'])).toEqual(ours);
  });

  it('manifest --check finds its manifest valid', () => {
    expect(npx('manifest', '--check')).toBe(`agentzip: ${installed}/plugin-manifest.json is valid\n`);
  });

  it('runs with swap on, tells its status, and drains', async () => {
    const service = await Service.start({}, { command: join(installed, 'dist/cli/main.js') });
    try {
      const status = JSON.parse(npx('status', '--json', '--runtime-dir', service.runtimeDir)) as {
        version: string;
        probes: { warnings: string[] };
        pager: { pid: number };
      };
      expect(status.version).toBe(version);
      // The pager's native part, too, is the installed one.
      const mapped = readFileSync(`/proc/${status.pager.pid}/maps`, 'utf8');
      expect(mapped).toContain(`${folder}/node_modules/`);
      expect(mapped).not.toContain(packageRoot);
      expect(status.probes.warnings.filter((warning) => warning.includes('no such file'))).toEqual([]);
      expect(npx('drain', '--runtime-dir', service.runtimeDir)).not.toBe('');
      expect(await service.ended()).toBe(0);
    } finally {
      await service.stop();
    }
  });
});
