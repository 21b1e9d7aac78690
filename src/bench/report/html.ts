import { count, figure, gib, ms, plain } from './format.js';
import { headline, summary, tiles, warnings } from './headline.js';
import type { BenchResult } from '../result.js';
import { html, Markup, type Part } from './markup.js';
import { ablationsPlot } from './plot-ablations.js';
import { countedPlot } from './plot-counted.js';
import { cpuPlot } from './plot-cpu.js';
import { encodingsPlot } from './plot-encodings.js';
import { latencyPlot } from './plot-latency.js';
import { memoryPlot } from './plot-memory.js';
import { tradeoffPlot } from './plot-tradeoff.js';
import { resultsTable } from './results.js';
import { inOrder } from './systems.js';
import { STYLE } from './style.js';

/** Nothing is loaded and no script runs, whatever got into the page. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/**
 * One HTML page with all results: no network, no script, opens from a file, prints. The JSON it was made from is in it,
 * behind a link. Loads the plotting library when imported (about 0.3 s), so import it when a page is wanted.
 */
export function renderReport(given: BenchResult): string {
  const result = inOrder(given);
  const title = headline(result);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} (${result.workload})</title>
        <style>
          ${new Markup(STYLE)}
        </style>
      </head>
      <body>
        <header>
          <p class="eyebrow">
            agentzip bench <span>${result.workload}</span>
            <time datetime="${result.startedAt}">${day(result.startedAt)}</time>
          </p>
          <h1>${title}</h1>
          ${summary(result)}
        </header>
        <main>
          <div class="notes">${warnings(result)}</div>
          ${tiles(result)} ${setting(result)} ${tradeoffPlot(result)} ${memoryPlot(result)}
          ${countedPlot(result)} ${latencyPlot(result)} ${ablationsPlot(result)} ${encodingsPlot(result)}
          ${cpuPlot(result)}
          <section id="results">
            <h2>All results</h2>
            <p class="caption">${spreadNote(result.runs)}</p>
            ${resultsTable(result)}
          </section>
          ${systems(result)} ${definitions(result)}
        </main>
        <footer>
          ${download(given)} Schema ${result.schema}. The page is complete in itself: it loads nothing.
        </footer>
      </body>
    </html> `.text;
}

const spreadNote = (runs: number): string =>
  runs > 1 ? `Medians of ${runs} runs; the range of the runs after them.` : 'One run each: no spread.';

function day(iso: string): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  return `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** What was run, and on what. */
function setting(result: BenchResult): Markup {
  const { host, plan } = result;
  const facts: [string, Part][] = [
    ['workload', result.workload],
    ['sandboxes', figure(result.sandboxes, count)],
    ['turns', figure(result.turns, count)],
    ['templates', figure(plan.templates, count)],
    ['tool calls', figure(plan.calls, count)],
    ['waits', html`p50 ${figure(plan.waitsMs.p50, ms)}, p95 ${figure(plan.waitsMs.p95, ms)}`],
    ['time scale', figure(result.timeScale, plain)],
    ['runs', figure(result.runs, count)],
    ['seed', figure(result.seed, plain)],
    ['started', result.startedAt],
    ['processor', html`${figure(host.cpus, count)} × ${host.cpu}`],
    ['memory', figure(host.memoryBytes, gib)],
    ['kernel', host.kernel],
    ['Node', host.node],
    ['AgentZip', host.agentzip],
  ];
  return html`<section id="setting">
    <h2>What was run</h2>
    <dl class="facts">
      ${facts.map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
    </dl>
    <p class="command"><code>${result.command}</code></p>
  </section>`;
}

function systems(result: BenchResult): Markup {
  return html`<section id="systems">
    <h2>Systems</h2>
    <dl class="terms">
      ${result.systems.map(
        ({ system, description, notes }) =>
          html`<dt>${system}</dt>
            <dd>
              ${description}
              ${
                notes.length > 0 &&
                html`<ul>
                  ${notes.map((note) => html`<li>${note}</li>`)}
                </ul>`
              }
            </dd>`,
      )}
    </dl>
  </section>`;
}

/** What the figures that a definition may name are called on this page. */
const TERMS: Record<string, string> = {
  base: 'template pages used as bases',
  overhead: "the system's own processes",
  swapCache: 'swap cache',
  reductionTemplateFree: 'less memory: time average, template not counted',
  reductionTemplateCharged: 'less memory: time average, template charged once',
  reductionAllIn: 'less memory: time average, all costs included',
  reductionAtWaitEnd: 'less memory: when waits end',
  peakReduction: 'less memory: peak over peak',
  slowdownWall: 'slowdown, wall time',
  toolMs: 'tool call',
  toolSlowdown: 'tool call, slowdown',
  cpuSeconds: 'processor time',
  busyShare: 'machine busy',
  spread: 'ranges',
};

const definitions = ({ definitions: terms }: BenchResult): Markup =>
  html`<section id="definitions">
    <h2>Definitions</h2>
    <p class="caption">With the name that each has in the JSON.</p>
    <dl class="terms">
      ${Object.entries(terms).map(
        ([term, meaning]) =>
          html`<dt>${TERMS[term] ?? term} <code>${term}</code></dt>
            <dd>${meaning}</dd>`,
      )}
    </dl>
  </section>`;

function download(result: BenchResult): Markup {
  const json = Buffer.from(`${JSON.stringify(result, null, 2)}\n`).toString('base64');
  const name = `${result.workload.replace(/[^\w.-]+/g, '-')}.json`;
  return html`<a download="${name}" href="data:application/json;base64,${json}">Save the results as JSON</a>`;
}
