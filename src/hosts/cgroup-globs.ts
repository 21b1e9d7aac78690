import { readdirSync } from 'node:fs';
import { globExpression } from './glob.js';

/** Folders looked into in one walk, so that a wrong glob over a large host ends. */
const MOST_FOLDERS = 20_000;
const ANY_FOLDERS = '**';

type Part = RegExp | typeof ANY_FOLDERS;

const partOf = (text: string): Part => (text === ANY_FOLDERS ? ANY_FOLDERS : globExpression(text));

/** At its end `**` is whatever lies below. */
function partsOf(glob: string): Part[] {
  const parts = glob.split('/').map(partOf);
  return parts.at(-1) === ANY_FOLDERS ? [...parts, partOf('*')] : parts;
}

/** What is left of each glob below a folder: some of its ends. */
type Rest = readonly Part[];

/** The rests below the folder `name`, given those of its parent. An empty one: the folder matches. */
function below(rests: readonly Rest[], name: string): Rest[] {
  return rests.flatMap((rest): Rest[] => {
    const [first, ...others] = rest;
    if (first === undefined) return [];
    if (first === ANY_FOLDERS) return [rest, ...below([others], name)];
    return first.test(name) ? [others] : [];
  });
}

/** Globs over folders: `*` and `?` stand for characters of one name, `**` for any number of folders. */
export class CgroupGlobs {
  private readonly include: Rest[];
  private readonly exclude: Rest[];

  constructor(include: readonly string[], exclude: readonly string[]) {
    this.include = include.map(partsOf);
    this.exclude = exclude.map(partsOf);
  }

  /**
   * Paths below `root` that match and are not excluded, and the folders that had to be looked into. What lies below a match or an
   * exclusion is not looked at: a sandbox has its cgroups, and no sandboxes in it.
   */
  walk(root: string): { matches: string[]; looked: string[] } {
    const matches: string[] = [];
    const looked: string[] = [];
    const queue = [{ path: '', include: this.include, exclude: this.exclude }];
    for (let at = queue.pop(); at !== undefined && looked.length < MOST_FOLDERS; at = queue.pop()) {
      const folder = at.path === '' ? root : `${root}/${at.path}`;
      looked.push(folder);
      for (const name of foldersIn(folder)) {
        const path = at.path === '' ? name : `${at.path}/${name}`;
        const exclude = below(at.exclude, name);
        if (exclude.some(ends)) continue;
        const include = below(at.include, name);
        if (include.some(ends)) matches.push(path);
        else if (include.length > 0) queue.push({ path, include, exclude });
      }
    }
    return { matches: matches.sort(), looked };
  }
}

/** The whole of a glob has been met. */
const ends = (rest: Rest): boolean => rest.length === 0;

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    // It has just been removed.
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (['ENOENT', 'ENODEV', 'ENOTDIR'].includes(code)) return [];
    throw error;
  }
}
