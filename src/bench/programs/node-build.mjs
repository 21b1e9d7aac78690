// What the agents' packages compile to, and the Node.js processes that run it.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const CHECKS = fileURLToPath(new URL('node-checks', import.meta.url));
/** Compiled packages, below the sandbox's folder; NODE_PATH lets them find each other, themselves and `vitest`. */
const OUT = 'lib';
/** Generous: with its memory out, and others compiling, a sandbox may be slow, and a result must not depend on it. */
const RUN_TIMEOUT_MS = 300_000;
const OUTPUT_BYTES_MAX = 4 * 2 ** 20;

export class Build {
  /** JavaScript of each file, by virtual path, and the version of the file it was made of. */
  outputs = new Map();
  /** What is on disk, by its path below OUT. */
  written = new Map();
  running = new Set();
  folder;

  constructor(project) {
    this.project = project;
  }

  compile(path) {
    const { ts, versions } = this.project;
    const version = versions.get(path) ?? 0;
    const known = this.outputs.get(path);
    if (known?.version === version) return known.text;
    const source = this.project.read(path);
    const text = path.endsWith('.js')
      ? source
      : ts.transpileModule(source, {
          compilerOptions: {
            target: ts.ScriptTarget.ES2022,
            module: ts.ModuleKind.CommonJS,
            esModuleInterop: true,
            rewriteRelativeImportExtensions: true,
          },
          fileName: path,
        }).outputText;
    this.outputs.set(path, { version, text });
    return text;
  }

  /** Writes what has changed since the last time, and `extra` files (its tests); returns where they are. */
  emit(subject, extra = []) {
    const place = (file) =>
      [subject.name, subject.place, file.replace(/\.ts$/, '.js')].filter(Boolean).join('/');
    const files = [...subject.sources, ...extra].filter((file) => !file.endsWith('.d.ts'));
    for (const file of files) this.write(place(file), this.compile(this.project.path(subject.name, file)));
    this.write(`${subject.name}/package.json`, JSON.stringify({ main: subject.main }));
    this.write('vitest/index.js', `module.exports = require(${JSON.stringify(`${CHECKS}/vitest.cjs`)});\n`);
    return extra.map((file) => `${OUT}/${place(file)}`);
  }

  write(path, text) {
    if (this.written.get(path) === text) return;
    const file = `${this.folder}/${OUT}/${path}`;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    this.written.set(path, text);
  }

  /** Runs `node --test` over test files of the package, or over its check where it has none. */
  async test(subject, files) {
    const emitted = this.emit(subject, files);
    const tests = files.length > 0 ? emitted : [checkOf(subject)];
    const reporter = `${CHECKS}/reporter.mjs`;
    const flags = ['--test', '--test-concurrency=1', `--test-reporter=${reporter}`];
    return this.run([...flags, '--test-reporter-destination=stdout', ...tests]);
  }

  /** Runs the package's script on the data that `seed` names. */
  async script(subject, seed) {
    this.emit(subject);
    return this.run([`${CHECKS}/script.cjs`, subject.name, String(seed)]);
  }

  /** A Node.js of its own, which the death of this process ends. Resolves to its exit code and output. */
  run(args) {
    const { packages } = this.project;
    const command = ['--pdeathsig', 'KILL', process.execPath, ...args];
    const child = spawn('/usr/bin/setpriv', command, {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a group of its own: the test runner has children
      env: { PATH: process.env.PATH, NODE_PATH: `${this.folder}/${OUT}:${packages}/node_modules` },
    });
    this.running.add(child.pid);
    return new Promise((resolve, reject) => {
      const output = { stdout: [], stderr: [] };
      let size = 0;
      for (const name of ['stdout', 'stderr']) {
        child[name].on('data', (chunk) => {
          size += chunk.length;
          if (size < OUTPUT_BYTES_MAX) output[name].push(chunk);
          else killGroup(child.pid);
        });
      }
      const timer = setTimeout(() => killGroup(child.pid), RUN_TIMEOUT_MS);
      child.on('error', reject);
      child.on('close', (code, signal) => {
        clearTimeout(timer);
        this.running.delete(child.pid);
        if (signal !== null) return reject(new Error(`node ${args.join(' ')} was ended by ${signal}`));
        const text = (name) => Buffer.concat(output[name]).toString().replaceAll(this.folder, '.');
        resolve({ code, stdout: text('stdout'), stderr: text('stderr') });
      });
    });
  }

  stop() {
    for (const pid of this.running) killGroup(pid);
  }
}

const checkOf = ({ name }) => `${CHECKS}/${name.replace(/^.*\//, '')}.test.cjs`;

function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // it has just ended
  }
}
