import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { ensurePackages } from '../debian.js';
import { ONE_THREAD, pythonCommand } from '../python.js';
import type { TemplatePlan } from '../workload.js';

const PACKAGES = ['python3', 'python3-numpy', 'python3-pandas', 'python3-sklearn', 'python3-matplotlib'];
const FONTS_TIMEOUT_MS = 120_000;

const fontFolder = (files: string): string => `${files}/matplotlib`;

/** A template of programs/MODULE.py. Python's hash randomisation stays on: PYTHONHASHSEED is not set. */
export const notebookTemplate = (
  of: Pick<TemplatePlan, 'id' | 'tenant' | 'launch'> & { module: 'analysis' | 'documents' },
  files: string,
): TemplatePlan => {
  const { module, ...template } = of;
  const env = { ...ONE_THREAD, MPLCONFIGDIR: fontFolder(files) };
  return { ...template, command: pythonCommand(module), env };
};

/** Installs the libraries, and has matplotlib list the fonts once, which takes it seconds. */
export async function prepareNotebooks(
  files: string,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  await ensurePackages(PACKAGES, note, signal);
  const fonts = fontFolder(files);
  mkdirSync(fonts, { recursive: true });
  if (readdirSync(fonts).some((name) => name.startsWith('fontlist-'))) return;
  const env = { PATH: '/usr/bin:/bin', HOME: files, MPLCONFIGDIR: fonts };
  const command = ['-B', '-s', '-c', 'import matplotlib.font_manager'];
  await promisify(execFile)('/usr/bin/python3', command, { env, signal, timeout: FONTS_TIMEOUT_MS });
}

/** False when the kernel gives equal programs equal addresses: a fresh start is then less of a change than elsewhere. */
export const randomisesAddresses = (): boolean =>
  readFileSync('/proc/sys/kernel/randomize_va_space', 'utf8').trim() === '2';
