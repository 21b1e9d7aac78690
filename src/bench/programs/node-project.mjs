// The packages as one TypeScript project that a language service keeps in memory. Paths are virtual, `zod/types.ts`
// below /work: the published files come from the shared, read-only folder of packages, changes live in memory and in the
// sandbox's folder, and no result names a path of this machine.

import { readdirSync, readFileSync, statSync } from 'node:fs';

const ROOT = '/work';
/** Where the compiler looks for types and for what the packages import. */
const MODULES = `${ROOT}/node_modules/`;
const PACKAGES = `${ROOT}/packages/`;
const SOURCE = /\.(?:ts|js)$/;
/** Suites and benchmarks are run, not type-checked: they import packages that only their authors install. */
const NOT_SOURCE = /^(?:tests?|benchmarks?|dist|example|eslint\.config)(?:\/|\.)/;

/** `a/b.ts` for every file below a folder, in a stable order. */
function walk(folder, below = '') {
  const entries = readdirSync(`${folder}/${below}`, { withFileTypes: true });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) =>
    entry.isDirectory() ? walk(folder, `${below}${entry.name}/`) : [`${below}${entry.name}`],
  );
}

/** A package that agents work on; see `subjects` in node-packages.json. Its files' names are relative to its root. */
class Subject {
  constructor(settings, packages) {
    Object.assign(this, settings);
    this.folder = [packages, 'node_modules', settings.name, settings.root].filter(Boolean).join('/');
    this.published = walk(this.folder).filter((file) => SOURCE.test(file));
    this.sources = this.published.filter((file) => !NOT_SOURCE.test(file));
  }
}

export class Project {
  /** Text of every file that was asked for, by virtual path, and how often it has changed. */
  texts = new Map();
  versions = new Map();

  constructor(ts, packages, subjects) {
    this.ts = ts;
    this.packages = packages;
    this.subjects = new Map(subjects.map((settings) => [settings.name, new Subject(settings, packages)]));
    this.roots = [...this.subjects.values()].flatMap(({ name, sources }) =>
      sources.map((file) => this.path(name, file)),
    );
    // As tsc does: documentation comments of type definitions would be a third of the memory.
    const jsDocParsingMode = ts.JSDocParsingMode.ParseForTypeErrors;
    const registry = ts.createDocumentRegistry(true, ROOT, jsDocParsingMode);
    this.service = ts.createLanguageService({ ...this.host(), jsDocParsingMode }, registry);
  }

  path(name, file) {
    return `${PACKAGES}${name}/${file}`;
  }

  subject(name) {
    const subject = this.subjects.get(name);
    if (subject === undefined) throw new Error(`no package ${name}`);
    return subject;
  }

  /** Without the virtual root, for results. */
  shown(path) {
    return path.slice(path.startsWith(PACKAGES) ? PACKAGES.length : ROOT.length + 1);
  }

  /** The published file behind a virtual path; undefined outside the project. */
  published(path) {
    if (path.startsWith(MODULES)) return `${this.packages}/node_modules/${path.slice(MODULES.length)}`;
    if (!path.startsWith(PACKAGES)) return undefined;
    const rest = path.slice(PACKAGES.length);
    for (const [name, { folder }] of this.subjects) {
      if (`${rest}/`.startsWith(`${name}/`)) return folder + rest.slice(name.length);
    }
    return undefined;
  }

  read(path) {
    const known = this.texts.get(path);
    if (known !== undefined) return known;
    const file = this.published(path);
    if (file === undefined || !isFile(file)) return undefined;
    const text = readFileSync(file, 'utf8');
    this.texts.set(path, text);
    return text;
  }

  write(path, text) {
    this.texts.set(path, text);
    this.versions.set(path, (this.versions.get(path) ?? 0) + 1);
  }

  changed() {
    return [...this.versions.keys()].sort();
  }

  original(path) {
    return readFileSync(this.published(path), 'utf8');
  }

  program() {
    return this.service.getProgram();
  }

  host() {
    const { ts } = this;
    const options = {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.CommonJS,
      moduleResolution: ts.ModuleResolutionKind.Node10,
      lib: ['lib.es2023.d.ts'],
      types: ['node'],
      strict: true,
      noEmit: true,
      allowJs: true,
      allowImportingTsExtensions: true,
      esModuleInterop: true,
      resolveJsonModule: true,
      skipLibCheck: true,
    };
    const real = (path) => this.published(path) ?? '';
    return {
      getCompilationSettings: () => options,
      useCaseSensitiveFileNames: () => true,
      getScriptFileNames: () => this.roots,
      getScriptVersion: (path) => String(this.versions.get(path) ?? 0),
      getScriptSnapshot: (path) => {
        const text = this.read(path);
        return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
      },
      getCurrentDirectory: () => ROOT,
      getDefaultLibFileName: () => `${MODULES}typescript/lib/lib.es2023.d.ts`,
      readFile: (path) => this.read(path),
      fileExists: (path) => this.texts.has(path) || isFile(real(path)),
      directoryExists: (path) => path === ROOT || `${path}/` === MODULES || isFolder(real(path)),
      getDirectories: (path) => (isFolder(real(`${path}/`)) ? foldersIn(real(`${path}/`)) : []),
    };
  }
}

const stats = (path) => statSync(path, { throwIfNoEntry: false });
const isFile = (path) => stats(path)?.isFile() ?? false;
const isFolder = (path) => stats(path)?.isDirectory() ?? false;
const foldersIn = (path) =>
  readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
