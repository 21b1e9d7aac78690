import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import { html, Markup, type Part } from './markup.js';

const { document } = parseHTML('<!doctype html><html><body></body></html>');

/** Widths in CSS pixels at which charts are drawn: text in them is then shown at about its true size. */
export const WIDE = 940;
export const NARROW = 340;
export const PANEL = 320;
/** Pixels a character of a chart's 11 px text takes, generously. */
export const CHARACTER = 6.3;

/** What is used of the element that Plot makes; the project knows no types of browsers. */
interface Drawn {
  querySelector(name: string): { remove(): void } | null;
  setAttribute(name: string, value: string): void;
  outerHTML: string;
}

/** An SVG image with everything in it. `name` is what a screen reader says. */
export function chart(name: string, options: Plot.PlotOptions): Markup {
  const svg = Plot.plot({
    ...options,
    document,
    className: 'plot',
    style: { fontSize: '11px', fontFamily: 'inherit', ...(options.style as object) },
  }) as unknown as Drawn;
  svg.querySelector('style')?.remove(); // the page has these rules, once
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', name);
  return new Markup(svg.outerHTML);
}

/** The same chart for screens and paper, and redrawn for phones; the style sheet shows one of them. */
export const responsive = (draw: (width: number) => Markup): Markup =>
  html`<div class="wide">${draw(WIDE)}</div>
    <div class="narrow">${draw(NARROW)}</div>`;

export interface Panel {
  title: Part;
  aside?: Part;
  chart: Markup;
}

/** Small charts side by side, as many as the width holds. */
export const panels = (list: readonly Panel[], columns = ''): Markup =>
  html`<div class="panels ${columns}">
    ${list.map(
      ({ title, aside, chart: image }) =>
        html`<div class="panel">
          <h3>${title}<span>${aside}</span></h3>
          ${image}
        </div>`,
    )}
  </div>`;

export interface Key {
  colour: string;
  label: string;
  /** Default: a filled area. */
  mark?: 'area' | 'line' | Shape;
  hollow?: boolean;
}

/** Marks of points, as Plot names them, and their outlines in a square of 12 pixels. */
export type Shape = keyof typeof SHAPES;
const SHAPES = {
  circle: 'M6,1.5a4.5,4.5 0 1 1 0,9a4.5,4.5 0 1 1 0,-9z',
  square: 'M2,2h8v8h-8z',
  diamond: 'M6,0.5l3.6,5.5l-3.6,5.5l-3.6,-5.5z',
  triangle: 'M6,1.2l5.2,9h-10.4z',
  star: 'M6,0.3l1.5,3.9l4.2,0.2l-3.3,2.6l1.1,4l-3.5,-2.3l-3.5,2.3l1.1,-4l-3.3,-2.6l4.2,-0.2z',
};

function sample({ colour, mark = 'area', hollow = false }: Key): Markup {
  if (mark === 'area' || mark === 'line') return html`<i class="${mark}" style="background:${colour}"></i>`;
  const style = hollow ? `fill:none;stroke:${colour};stroke-width:2` : `fill:${colour}`;
  return html`<svg width="12" height="12" aria-hidden="true">
    <path d="${SHAPES[mark]}" style="${style}" />
  </svg>`;
}

export const legend = (keys: readonly Key[]): Markup =>
  html`<ul class="legend">
    ${keys.map((key) => html`<li>${sample(key)}${key.label}</li>`)}
  </ul>`;

export interface Illustration {
  id: string;
  title: string;
  caption: Part;
  body: Markup;
  data: Markup;
}

/** A plot with its title, a sentence that says how to read it, and its numbers. */
export const illustration = ({ id, title, caption, body, data }: Illustration): Markup =>
  html`<figure id="${id}">
    <h2>${title}</h2>
    <p class="caption">${caption}</p>
    ${body}
    <details>
      <summary>The numbers of this plot</summary>
      ${data}
    </details>
  </figure>`;

export interface Table {
  head: readonly Part[];
  rows: readonly (readonly Part[])[];
}

/** The first column names the row. */
export const table = ({ head, rows }: Table): Markup =>
  html`<div class="scroll">
    <table>
      <thead>
        <tr>
          ${head.map((cell) => html`<th scope="col">${cell}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ([name, ...cells]) =>
            html`<tr>
              <th scope="row">${name}</th>
              ${cells.map((cell) => html`<td>${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;

/** Room left of a plot for the longest of these names. */
export const marginFor = (names: readonly string[]): number =>
  Math.min(170, Math.ceil(12 + CHARACTER * Math.max(...names.map((name) => name.length))));

/** Ticks of a logarithmic axis that read well. */
export function logTicks(from: number, to: number): number[] {
  const ticks: number[] = [];
  for (let power = -3; power <= 7; power++) {
    for (const step of [1, 2, 5]) ticks.push(Number((step * 10 ** power).toPrecision(1)));
  }
  return ticks.filter((tick) => tick >= from && tick <= to);
}
