import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import koffi from 'koffi';
import { atLeast, refusal, type Requirement } from './requirement.js';

/** `engines.node` of package.json. */
const NODE = '20.19';
const PYTHON = '/usr/bin/python3';
const PYTHON_MODULES = ['numpy', 'pandas', 'matplotlib'];
const PYTHON_TIMEOUT_MS = 20_000;

function library(file: string, level: Requirement['level'], needed: string, debian: string): Requirement {
  let reason = '';
  try {
    koffi.load(file);
  } catch (error) {
    reason = (error as Error).message;
  }
  const ok = reason === '';
  return {
    ...{ id: file, level, ok, found: ok ? 'yes' : reason, needed },
    ...refusal('AZ_LIBRARY_MISSING', { library: file, reason, package: debian }),
  };
}

export function programs(): Requirement[] {
  return [
    {
      id: 'node',
      level: 'required',
      ok: atLeast(process.versions.node, NODE),
      found: process.versions.node,
      needed: `Node.js ${NODE} or later`,
      remedy: 'install a later Node.js',
    },
    library('libzstd.so.1', 'required', 'pages are compressed with it', 'libzstd1'),
    library('libbpf.so.1', 'optional', 'probes are loaded through it', 'libbpf1'),
  ];
}

/** What the demo's sandboxes run. */
export async function python(): Promise<Requirement> {
  const script = `import importlib.util as u; print(*[m for m in ${JSON.stringify(PYTHON_MODULES)} if not u.find_spec(m)])`;
  let missing: string;
  try {
    const { stdout } = await promisify(execFile)(PYTHON, ['-c', script], { timeout: PYTHON_TIMEOUT_MS });
    missing = stdout.trim();
  } catch (error) {
    missing = (error as NodeJS.ErrnoException).code === 'ENOENT' ? PYTHON : (error as Error).message;
  }
  return {
    id: 'python3',
    level: 'optional',
    ok: missing === '',
    found: missing === '' ? `with ${PYTHON_MODULES.join(', ')}` : `missing: ${missing}`,
    needed: `${PYTHON} with ${PYTHON_MODULES.join(', ')}, for agentzip demo`,
    remedy: `apt-get install python3 ${PYTHON_MODULES.map((name) => `python3-${name}`).join(' ')}`,
  };
}
