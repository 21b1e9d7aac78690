import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Folder of the installed package; the same whether this runs from `src` (tests) or `dist`. */
export const packageRoot = fileURLToPath(new URL('..', import.meta.url));

/** Version from package.json. */
export const version: string = JSON.parse(readFileSync(`${packageRoot}/package.json`, 'utf8')).version;
