// Tool calls of a coding agent. Each does real work on real packages, keeps what it made in this process, as an
// editor's servers do, and answers with what an agent would be shown, or a digest of it where that is long.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Build } from './node-build.mjs';
import { diff } from './node-diff.mjs';
import { Lint } from './node-lint.mjs';
import { Project } from './node-project.mjs';
import { digest, digestOfLint, digestOfTrees } from './node-review.mjs';

const MATCHES_MAX = 400;
const SHOWN_MAX = 20;

export class Session {
  /** What the tools answered, by tool: an agent's context is kept where its tools run. */
  kept = new Map();
  /** Virtual paths that changed since the last type check. */
  stale = new Set();
  folder;

  /** `need` loads packages from the folder `packages`. */
  constructor(need, packages, subjects) {
    this.project = new Project(need('typescript'), packages, subjects);
    this.lint = new Lint(need);
    this.build = new Build(this.project);
    this.tools = { list, grep, read, outline, references, edit, rename, typecheck, lint, test, script };
    Object.assign(this.tools, { diff: differences, review });
  }

  /** The project is loaded and type-checked once, but for what takes long, and the linter has run. */
  warmUp() {
    for (const subject of this.project.subjects.values()) {
      for (const file of subject.sources.filter((name) => !subject.heavy.includes(name))) {
        this.project.service.getSemanticDiagnostics(this.project.path(subject.name, file));
      }
    }
    const [{ name, files }] = this.project.subjects.values();
    const path = this.project.path(name, files[0]);
    this.lint.check(path, this.project.read(path));
  }

  enter(folder) {
    this.folder = folder;
    this.build.folder = folder;
  }

  stop() {
    this.build.stop();
  }

  async call(tool, args) {
    if (!Object.hasOwn(this.tools, tool)) throw new Error(`no tool ${tool}`);
    return this.tools[tool](this, args);
  }

  keep(tool, value) {
    const all = this.kept.get(tool) ?? [];
    all.push(value);
    this.kept.set(tool, all);
  }

  /** Changes a file in memory and in the sandbox's folder. */
  change(path, text) {
    this.project.write(path, text);
    this.stale.add(path);
    const file = `${this.folder}/src/${this.project.shown(path)}`;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

function list(session, { package: name }) {
  const { project } = session;
  const subject = project.subject(name);
  const sizes = subject.published.map((file) => [file, project.read(project.path(name, file)).length]);
  session.keep('list', sizes);
  return { files: sizes.length, list: digest(JSON.stringify(sizes)) };
}

function grep(session, { package: name, pattern }) {
  const { project } = session;
  const wanted = new RegExp(pattern);
  const matches = [];
  for (const file of project.subject(name).published) {
    project
      .read(project.path(name, file))
      .split('\n')
      .forEach((line, i) => {
        if (matches.length < MATCHES_MAX && wanted.test(line)) matches.push(`${file}:${i + 1}:${line}`);
      });
  }
  session.keep('grep', matches);
  return { matches: matches.length, first: matches.slice(0, 3), all: digest(matches.join('\n')) };
}

function read(session, { package: name, file }) {
  const { project } = session;
  const text = project.read(project.path(name, file));
  // Numbered, as an agent is shown it: a copy, not a reference to the compiler's.
  const numbered = text.split('\n').map((line, i) => `${String(i + 1).padStart(6)}\t${line}`);
  session.keep('read', numbered);
  return { lines: numbered.length, text: digest(numbered.join('\n')) };
}

function outline(session, { package: name, file }) {
  const { project } = session;
  const tree = project.service.getNavigationTree(project.path(name, file));
  const rows = [];
  const visit = ({ text, kind, spans, childItems }, depth) => {
    rows.push(`${'  '.repeat(depth)}${kind} ${text} ${spans[0].start}`);
    for (const child of childItems ?? []) visit(child, depth + 1);
  };
  visit(tree, 0);
  session.keep('outline', rows);
  return { rows: rows.length, outline: digest(rows.join('\n')) };
}

/** Position of a name as a whole word in a package: [path, offset], or undefined. */
function find(project, subject, name, file) {
  const word = new RegExp(`\\b${name.replaceAll('$', '\\$')}\\b`);
  for (const one of file === undefined ? subject.sources : [file]) {
    const path = project.path(subject.name, one);
    const at = word.exec(project.read(path))?.index;
    if (at !== undefined) return [path, at];
  }
  return undefined;
}

function references(session, { package: name, symbol }) {
  const { project } = session;
  const place = find(project, project.subject(name), symbol);
  if (place === undefined) return { symbol, references: 0 };
  const found = (project.service.findReferences(...place) ?? []).flatMap((one) =>
    one.references.map(({ fileName, textSpan }) => `${project.shown(fileName)}:${textSpan.start}`),
  );
  const info = project.service.getQuickInfoAtPosition(...place);
  const type = (info?.displayParts ?? []).map(({ text }) => text).join('');
  session.keep('references', { symbol, type, found });
  return { symbol, references: found.length, type: digest(type), found: digest(found.join('\n')) };
}

/** Replaces text that occurs once; an empty `find` appends. */
function edit(session, { package: name, file, find: old, replace }) {
  const { project } = session;
  const path = project.path(name, file);
  const text = project.read(path);
  const at = old === '' ? text.length : text.indexOf(old);
  if (at < 0 || (old !== '' && text.indexOf(old, at + 1) >= 0)) {
    throw new Error(`${name}/${file} has ${at < 0 ? 'no' : 'more than one'} ${JSON.stringify(old)}`);
  }
  const next = text.slice(0, at) + replace + text.slice(at + old.length);
  session.change(path, next);
  return { file: `${name}/${file}`, text: digest(next) };
}

function rename(session, { package: name, file, symbol, to }) {
  const { project } = session;
  const place = find(project, project.subject(name), symbol, file);
  if (place === undefined) throw new Error(`${name}/${file} has no ${symbol}`);
  const options = { providePrefixAndSuffixTextForRename: true };
  const locations = project.service.findRenameLocations(...place, false, false, options) ?? [];
  const byFile = new Map();
  for (const one of locations) byFile.set(one.fileName, [...(byFile.get(one.fileName) ?? []), one]);
  for (const [path, places] of byFile) {
    let text = project.read(path);
    for (const { textSpan, prefixText = '', suffixText = '' } of places.sort(
      (a, b) => b.textSpan.start - a.textSpan.start,
    )) {
      const end = textSpan.start + textSpan.length;
      text = `${text.slice(0, textSpan.start)}${prefixText}${to}${suffixText}${text.slice(end)}`;
    }
    session.change(path, text);
  }
  const files = [...byFile.keys()].map((path) => project.shown(path)).sort();
  return { places: locations.length, files };
}

/** Diagnostics of the named files and of what changed since the last time, but for files that take too long. */
function typecheck(session, { package: name, files }) {
  const { project, stale } = session;
  const { ts, service } = project;
  const subject = project.subject(name);
  const paths = new Set([...files.map((file) => project.path(name, file)), ...stale]);
  for (const { name: one, heavy } of project.subjects.values()) {
    for (const file of heavy) paths.delete(project.path(one, file));
  }
  stale.clear();
  const messages = [...paths].sort().flatMap((path) =>
    [...service.getSyntacticDiagnostics(path), ...service.getSemanticDiagnostics(path)].map((one) => {
      const { line } = one.file.getLineAndCharacterOfPosition(one.start);
      return `${project.shown(path)}:${line + 1} TS${one.code} ${ts.flattenDiagnosticMessageText(one.messageText, ' ')}`;
    }),
  );
  session.keep('typecheck', messages);
  return {
    package: subject.name,
    files: paths.size,
    errors: messages.length,
    first: messages.slice(0, SHOWN_MAX),
  };
}

function lint(session, { package: name, file }) {
  const { project } = session;
  const path = project.path(name, file);
  const messages = session.lint.check(path, project.read(path));
  session.keep('lint', messages);
  return { problems: messages.length, first: messages.slice(0, 3), all: digest(messages.join('\n')) };
}

async function test(session, { package: name, files }) {
  const { code, stdout } = await session.build.test(session.project.subject(name), files);
  const results = stdout.trim().split('\n');
  session.keep('test', results);
  const failed = results.filter((line) => line.startsWith('not ok'));
  return {
    code,
    tests: results.length,
    failed: failed.length,
    first: failed.slice(0, SHOWN_MAX),
    all: digest(stdout),
  };
}

async function script(session, { package: name, seed }) {
  const { code, stdout, stderr } = await session.build.script(session.project.subject(name), seed);
  session.keep('script', stdout);
  const reason = /^\w*Error: .*$/m.exec(stderr)?.[0] ?? '';
  return { code, bytes: stdout.length, output: digest(stdout), reason: code === 0 ? '' : reason };
}

function differences(session) {
  const { project } = session;
  const changed = project.changed().filter((path) => project.original(path) !== project.read(path));
  const parts = changed.map((path) => {
    const text = diff(project.original(path), project.read(path));
    return `--- ${project.shown(path)}\n${text}`;
  });
  session.keep('diff', parts);
  const text = parts.join('\n');
  return { files: parts.length, lines: text.split('\n').length, diff: digest(text) };
}

/** Reads everything this sandbox keeps. */
function review(session) {
  const { project, build, lint: linter, kept } = session;
  const program = project.program();
  const { files, nodes, digest: trees } = digestOfTrees(project.ts, program);
  const kinds = digestOfLint(linter.sources);
  return {
    texts: digest(...[...project.texts].sort(byKey).flat()),
    changed: digest(JSON.stringify([...project.versions].sort(byKey))),
    trees: { files, nodes, digest: trees },
    lint: kinds,
    outputs: digest(...[...build.outputs].sort(byKey).flatMap(([path, { text }]) => [path, text])),
    kept: Object.fromEntries([...kept].sort(byKey).map(([tool, all]) => [tool, digest(JSON.stringify(all))])),
  };
}

const byKey = ([a], [b]) => (a < b ? -1 : 1);
