import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { AgentZipError } from '../../../errors.js';
import { downloadPackages, ensurePackages, execute } from '../../debian.js';
import type { Project } from './project.js';

const PYTHON = '/usr/bin/python3';
/** What every sandbox uses beside its project: pytest with all it imports, and the tool server's parser. */
const COMMON_PACKAGES = ['pytest', 'pluggy', 'iniconfig', 'attr', 'packaging', 'parso'].map(
  (name) => `python3-${name}`,
);
/** The checkout's only commit is the same everywhere. */
const COMMITTER = {
  GIT_AUTHOR_NAME: 'agentzip',
  GIT_AUTHOR_EMAIL: 'agentzip@localhost',
  GIT_AUTHOR_DATE: '2024-01-01T00:00:00Z',
  GIT_COMMITTER_NAME: 'agentzip',
  GIT_COMMITTER_EMAIL: 'agentzip@localhost',
  GIT_COMMITTER_DATE: '2024-01-01T00:00:00Z',
};

/** Where the files of the projects are, below the folder of the bench. */
export const projectRoot = (files: string, project: Project): string =>
  `${files}/python-projects/${project.name}`;
export const dependenciesOf = (files: string, project: Project): string =>
  `${projectRoot(files, project)}/site`;

/**
 * Brings projects and what their tests need from Debian's packages into `files`. The packages are downloaded and
 * unpacked there, not installed; only git is, when it is missing: see ensurePackages. AZ_WORKLOAD_FAILED when a package
 * can not be had or has another version than the task set was written for.
 */
export async function prepareProjects(
  files: string,
  projects: readonly Project[],
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const missing = projects.filter((project) => !existsSync(`${projectRoot(files, project)}/repo`));
  if (missing.length === 0) return;
  if (!existsSync('/usr/bin/git')) await ensurePackages(['git'], note, signal);
  const folder = `${files}/python-projects`;
  const packages = [...new Set(missing.flatMap(packagesOf))];
  note(`fetching from Debian into ${folder}: ${packages.join(' ')}`);
  const debs = `${folder}/debs`;
  await downloadPackages(debs, packages, signal);
  for (const project of missing) await checkOut(files, project, debs, signal);
  rmSync(debs, { recursive: true, force: true });
}

const packagesOf = (project: Project): string[] => [
  project.package,
  ...project.dependencies,
  ...COMMON_PACKAGES,
];

/** Unpacks a project and makes a repository of it, aside first, so that what stands there is whole. */
async function checkOut(files: string, project: Project, debs: string, signal: AbortSignal): Promise<void> {
  const root = projectRoot(files, project);
  const aside = `${root}.new`;
  for (const path of [root, aside]) rmSync(path, { recursive: true, force: true });
  for (const path of ['repo', 'tmp', 'site']) mkdirSync(`${aside}/${path}`, { recursive: true });
  const libraries = `${aside}/unpacked/usr/lib/python3/dist-packages`;
  const unpack = async (name: string): Promise<void> => {
    const deb = readdirSync(debs).find((file) => file.startsWith(`${name}_`));
    rmSync(`${aside}/unpacked`, { recursive: true, force: true });
    await execute('dpkg-deb', ['-x', `${debs}/${deb}`, `${aside}/unpacked`], { signal });
  };
  await unpack(project.package);
  requireVersion(project, readdirSync(debs).find((file) => file.startsWith(`${project.package}_`)) ?? '');
  for (const name of project.packages)
    cpSync(`${libraries}/${name}`, `${aside}/repo/${name}`, { recursive: true });
  // Some projects look up their own version in their metadata.
  for (const name of readdirSync(libraries).filter((file) => /\.(dist|egg)-info$/.test(file)))
    cpSync(`${libraries}/${name}`, `${aside}/site/${name}`, { recursive: true });
  for (const name of [...project.dependencies, ...COMMON_PACKAGES]) {
    await unpack(name);
    cpSync(libraries, `${aside}/site`, { recursive: true });
  }
  rmSync(`${aside}/unpacked`, { recursive: true, force: true });
  await commit(`${aside}/repo`, signal);
  // By hash, not by time: a sandbox whose file differs compiles it, all others load what is here.
  const compile = ['-m', 'compileall', '-q', '--invalidation-mode', 'checked-hash'];
  // The tests of some projects hold files that do not compile on purpose.
  await execute(PYTHON, [...compile, '-s', aside, '-p', root, `${aside}/repo`, `${aside}/site`], {
    signal,
    mayFail: true,
  });
  renameSync(aside, root);
}

function requireVersion(project: Project, file: string): void {
  const version = file.split('_')[1] ?? 'none';
  if (version.startsWith(project.version)) return;
  const reason = `the task set of ${project.name} is for version ${project.version} of ${project.package}, and this Debian has ${version}`;
  throw new AgentZipError('AZ_WORKLOAD_FAILED', { reason, log: 'the lines above' });
}

async function commit(repo: string, signal: AbortSignal): Promise<void> {
  const git = (...args: string[]): Promise<unknown> =>
    execute('git', ['-C', repo, ...args], {
      signal,
      env: { ...COMMITTER, HOME: repo, GIT_CONFIG_NOSYSTEM: '1' },
    });
  await git('init', '-q', '-b', 'main');
  // Sandboxes link to the same files: linking changes their ctime and nothing else.
  await git('config', 'core.trustctime', 'false');
  writeFileSync(`${repo}/.git/info/exclude`, '__pycache__/\n');
  await git('add', '-A');
  await git('commit', '-q', '-m', 'As packaged by Debian');
}
