import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { packageRoot } from '../../paths.js';
import { downloadPackages, ensurePackages, execute } from '../debian.js';
import { failed } from '../lines.js';
import { makeWhole } from '../whole-folder.js';
import { cpio, type CpioEntry, device, directory, entriesBelow, file } from './cpio.js';

/** QEMU, its firmware, and what makes packages into files. */
const HOST_PACKAGES = ['qemu-system-x86'];
const KERNEL = 'linux-image-6.12-cloud-amd64';
/** What the guest runs, with all it loads. */
const GUEST_PACKAGES = [
  'git',
  'libc6',
  'libexpat1',
  'libffi8',
  'libpcre2-8-0',
  'libpython3.11-minimal',
  'libpython3.11-stdlib',
  'libssl3',
  'python3.11-minimal',
  'zlib1g',
];
/** Of those packages; documentation, character sets and git's other programs stay out. */
const KEPT =
  /^(lib(64)?(\/|$)|usr$|usr\/(bin$|bin\/(git|python3\.11)$|lib$|lib\/(python3\.11|x86_64-linux-gnu)(\/|$)))/;
const DROPPED =
  /\/(gconv|engines-3|ossl-modules|pkgconfig|lib2to3|pydoc_data|ensurepip|unittest\/test)(\/|$)/;
const PROGRAMS = `${packageRoot}/src/bench/programs`;
const GUEST_PROGRAM = 'microvm_guest.py';
/** Changes when what is made here changes. */
const FORMAT = 1;

/** Where kernel and system of the guests are, below the folder kept between runs. */
export function guestFolder(files: string): string {
  const made = JSON.stringify([FORMAT, KERNEL, GUEST_PACKAGES, KEPT.source, DROPPED.source]);
  return `${files}/microvm-${createHash('sha256').update(made).digest('hex').slice(0, 12)}`;
}

export const kernelOf = (files: string): string => `${guestFolder(files)}/vmlinuz`;

/** Brings kernel and system of the guests into `files`, from Debian's packages, and QEMU onto the machine when it is missing. */
export async function prepareGuests(
  files: string,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  if (process.arch !== 'x64') throw failed(`its guests are x86-64 machines, and this one is ${process.arch}`);
  await ensurePackages(HOST_PACKAGES, note, signal);
  const folder = guestFolder(files);
  if (existsSync(folder)) return;
  note(`fetching from Debian into ${folder}: ${[KERNEL, ...GUEST_PACKAGES].join(' ')}`);
  await makeWhole(folder, (partial) => make(partial, signal));
}

async function make(folder: string, signal: AbortSignal): Promise<void> {
  const debs = `${folder}/debs`;
  const [root, kernel] = [`${folder}/root`, `${folder}/kernel`];
  const kernelPackage = await exactly(KERNEL, signal);
  await downloadPackages(debs, [kernelPackage, ...GUEST_PACKAGES], signal);
  for (const deb of readdirSync(debs)) {
    const to = deb.startsWith('linux-image') ? kernel : root;
    await execute('dpkg-deb', ['-x', `${debs}/${deb}`, to], { signal });
  }
  const image = readdirSync(`${kernel}/boot`).find((name) => name.startsWith('vmlinuz-'));
  if (image === undefined) throw failed(`${kernelPackage} has no kernel`);
  renameSync(`${kernel}/boot/${image}`, `${folder}/vmlinuz`);
  // Files of an initramfs have no times.
  const compile = ['-m', 'compileall', '-q', '--invalidation-mode', 'unchecked-hash'];
  const library = `${root}/usr/lib/python3.11`;
  await execute('/usr/bin/python3', [...compile, '-s', root, '-p', '/', library], { signal });
  const system = cpio(entriesBelow(root, '', (name) => KEPT.test(name) && !DROPPED.test(name)));
  writeFileSync(`${folder}/system.cpio`, system);
  for (const path of [debs, root, kernel]) rmSync(path, { recursive: true, force: true });
}

/** The package of a kernel's version that a package without one stands for. */
async function exactly(name: string, signal: AbortSignal): Promise<string> {
  const depends = await execute('apt-cache', ['depends', name], { signal });
  return /Depends: (linux-image-\S+)/.exec(depends)?.[1] ?? name;
}

/** The initramfs of a guest that works on the project in `root` (with repo/ and site/): the kernel unpacks one archive after the other. */
export function initramfs(files: string, root: string, taskFile: string): Buffer {
  return Buffer.concat([
    readFileSync(`${guestFolder(files)}/system.cpio`),
    cpio([...systemEntries(), ...projectEntries(root, taskFile)]),
  ]);
}

function systemEntries(): CpioEntry[] {
  const programs = readdirSync(PROGRAMS).filter((name) => /^rollout.*\.py$/.test(name));
  return [
    ...['dev', 'proc', 'sys', 'tmp', 'programs'].map(directory),
    // The first process has it as its output.
    device('dev/console', 5, 1),
    file('init', readFileSync(`${PROGRAMS}/${GUEST_PROGRAM}`), 0o755),
    ...programs.sort().map((name) => file(`programs/${name}`, readFileSync(`${PROGRAMS}/${name}`))),
  ];
}

const projectEntries = (root: string, taskFile: string): CpioEntry[] => [
  ...['project', 'project/repo', 'project/site', 'project/tmp'].map(directory),
  ...entriesBelow(`${root}/repo`, 'project/repo'),
  ...entriesBelow(`${root}/site`, 'project/site'),
  file('project/task.json', readFileSync(taskFile)),
];
