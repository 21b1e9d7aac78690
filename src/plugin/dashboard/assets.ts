import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { packageRoot } from '../../paths.js';

export interface Asset {
  type: string;
  body: Buffer;
}

const PAGE = 'plugin/dashboard/page';
const HTML = 'text/html; charset=utf-8';
const CSS = 'text/css; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';

/** Everything the page consists of, by path. Read once: nothing of a request becomes the name of a file. */
export function readAssets(): ReadonlyMap<string, Asset> {
  const assets = new Map<string, Asset>();
  const add = (path: string, type: string, file: string): void => {
    assets.set(path, { type, body: readFileSync(file) });
  };
  const source = join(packageRoot, 'src', PAGE);
  const built = join(packageRoot, 'dist');
  add('/', HTML, join(source, 'index.html'));
  add('/style.css', CSS, join(source, 'style.css'));
  for (const name of readdirSync(join(built, PAGE)).filter((file) => file.endsWith('.js'))) {
    add(`/${PAGE}/${name}`, SCRIPT, join(built, PAGE, name));
  }
  for (const shared of ['plugin/watch/format.js', 'plugin/dashboard/shapes.js']) {
    add(`/${shared}`, SCRIPT, join(built, shared));
  }
  const uplot = join(dirname(createRequire(import.meta.url).resolve('uplot/package.json')), 'dist');
  add('/uplot.js', SCRIPT, join(uplot, 'uPlot.iife.min.js'));
  add('/uplot.css', CSS, join(uplot, 'uPlot.min.css'));
  return assets;
}
