import { bytes, duration, percent, perSecond, times } from '../../watch/format.js';
import { ENCODINGS, type Now, type Point } from '../shapes.js';
import { byId, clock, element, setText } from './dom.js';

/** The parts of the page that are text: state, alerts, tiles, encodings, templates. */

const MEANING: Record<(typeof ENCODINGS)[number], string> = {
  same: 'one word repeated, such as zero',
  duplicate: 'equal to a stored page',
  template: "equal to the template's page",
  delta: 'difference to another page',
  sparse: 'a few words differ from another page',
  dictionary: 'zstd with a learnt dictionary',
  clustered: 'zstd together with others',
  zstd: 'zstd by itself',
  raw: 'as it is',
  staged: 'not refined yet',
};

export function showState(now: Now | null, problem: string | null): void {
  const state = byId('state');
  state.classList.toggle('bad', problem !== null);
  if (problem !== null) return setText(state, problem);
  if (now === null) return setText(state, 'nothing seen yet');
  const mode = now.enabled ? 'enabled' : 'disabled: nothing is compressed';
  const standby = now.standby ? '' : ', no standby';
  setText(state, `${now.version}, ${mode}${standby}, up ${duration(now.uptimeMs)}, seen ${clock(now.at)}`);
}

export function showAlerts({ alerts, short }: Now): void {
  const texts = alerts.map(({ code, message, remedy }) => `${code}: ${message}. Remedy: ${remedy}.`);
  if (short) texts.push('The host is short of memory.');
  const box = byId('alerts');
  box.hidden = texts.length === 0;
  const known = [...box.children].map(({ textContent }) => textContent);
  if (texts.length === known.length && texts.every((text, i) => text === known[i])) return;
  box.replaceChildren(...texts.map((text) => element('p', {}, text)));
}

function tiles(now: Now, point: Point): [title: string, value: string, aside: string][] {
  const [some, full] = [now.somePercent, now.fullPercent].map((share) =>
    share === null ? '-' : `${share.toFixed(1)}%`,
  );
  const charged = now.reductionCharged === null ? '' : `${times(now.reductionCharged)} with base`;
  return [
    ['Memory now', bytes(point.owned + point.pool), `+ ${bytes(point.base)} base`],
    ['Without AgentZip', bytes(point.owned + point.out), `${bytes(point.out)} is out`],
    ['Reduction', times(now.reduction), charged],
    ['Sandboxes', String(now.sandboxes.length), `${now.waiting} waiting`],
    ['Prefetch used', percent(now.accuracy), 'of pages, of late'],
    ['Faults', `${perSecond(now.faultsPerS)}/s`, 'on pages out'],
    ['Host free', bytes(now.available), `of ${bytes(now.total)}`],
    ['Pressure', some, `all tasks: ${full}`],
  ];
}

export function showTiles(now: Now, point: Point): void {
  const list = byId('tiles');
  const wanted = tiles(now, point);
  if (list.children.length === 0) {
    for (const [title] of wanted) {
      list.append(
        element('div', {}, element('dt', {}, title), element('dd', {}, element('span'), element('small'))),
      );
    }
  }
  wanted.forEach(([, value, aside], i) => {
    const [text, small] = [...(list.children[i].lastElementChild as Element).children];
    setText(text, value);
    setText(small, aside);
  });
}

export function showEncodings({ encodings, foreignPages }: Now): void {
  const body = byId('encodings').querySelector('tbody') as HTMLElement;
  if (body.children.length === 0) {
    for (const name of ENCODINGS) {
      const label = element('th', { scope: 'row', title: MEANING[name] }, name);
      const bar = element('div', { class: 'bar' });
      const cells = ['number', 'number'].map((kind) => element('td', { class: kind }));
      body.append(element('tr', {}, label, ...cells, element('td', {}, bar)));
    }
  }
  const counts = ENCODINGS.map((name) => encodings[name] ?? 0);
  const all = counts.reduce((a, b) => a + b, 0);
  const most = Math.max(1, ...counts);
  counts.forEach((count, i) => {
    const [, pages, share, last] = [...body.children[i].children];
    setText(pages, count.toLocaleString('en'));
    setText(share, all === 0 ? '-' : `${((100 * count) / all).toFixed(1)}%`);
    (last.firstElementChild as HTMLElement).style.width = `${(100 * count) / most}%`;
  });
  byId('encodings').title = `${foreignPages} pages belong to no sandbox`;
}

export function showTemplates({ templates }: Now): void {
  const body = byId('templates').querySelector('tbody') as HTMLElement;
  const rows = templates.map(({ id, pages, resident, ratio, accuracy, coverage, drift }) => {
    const cells = [
      pages.toLocaleString('en'),
      bytes(resident),
      times(ratio),
      percent(accuracy),
      percent(coverage),
    ];
    const numbers = cells.map((text) => element('td', { class: 'number' }, text));
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, id),
      ...numbers,
      element('td', {}, drift ?? '-'),
    );
  });
  if (rows.length === 0)
    rows.push(element('tr', {}, element('td', { colspan: '7' }, 'No template is registered.')));
  if (body.textContent !== rows.map(({ textContent }) => textContent).join('')) body.replaceChildren(...rows);
}
