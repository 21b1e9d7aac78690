import type { Spread } from '../stats.js';
import { figure, type Format, isFigure, listed, mib, ms, spreadFigure, times } from './format.js';
import type { BenchResult, SystemResult } from '../result.js';
import { html, type Markup, type Part } from './markup.js';
import { baselineOf, roleOf, subjectOf } from './systems.js';

const nameOf = (system: string): string => (system === 'agentzip' ? 'AgentZip' : system);

/** `10.4x less memory`, or what it is when a system costs more than it saves. */
const memory = (ratio: number): string =>
  ratio < 1 ? `${times(1 / ratio)} more memory` : `${times(ratio)} less memory`;

/** The result in one line, also the page's title. */
export function headline(result: BenchResult): string {
  const [subject, baseline] = [subjectOf(result), baselineOf(result)];
  if (subject === baseline) {
    const mean = mib(subject.memory.ownedMean.median);
    return `${result.workload}: ${result.sandboxes} sandboxes under ${subject.system} own ${mean} on average`;
  }
  const reduction = memory(subject.reductionTemplateFree.median);
  return `${nameOf(subject.system)}: ${reduction} at ${times(subject.slowdownWall.median)} the wall time`;
}

/** The sentences under the headline: what else counts, for and against. */
export function summary(result: BenchResult): Markup {
  const [subject, baseline] = [subjectOf(result), baselineOf(result)];
  if (subject === baseline) {
    return html`<p class="lede">Nothing to compare: only ${subject.system} was run.</p>`;
  }
  const best = bestOther(result);
  const { p50, p95 } = subject.toolSlowdown;
  return html`<p class="lede">
    Memory of all ${result.sandboxes} sandboxes of <b>${result.workload}</b> together, averaged over time,
    template not counted, compared with
    ${baseline.system === 'none' ? 'no memory system' : html`<b>${baseline.system}</b>`}. With the template
    charged once it is ${memory(subject.reductionTemplateCharged.median)}; with everything the system costs,
    ${memory(subject.reductionAllIn.median)}. Tool calls take ${times(p50)} as long at the median and
    ${times(p95)} at the 95th percentile.
    ${
      best &&
      html`The best of the other systems, <b>${best.system}</b>, reaches
        ${memory(best.reductionTemplateFree.median)} at ${times(best.slowdownWall.median)} the wall time.`
    }
    ${
      baseline.system !== 'none' &&
      html`<b>System none was not run</b>: every ratio compares with ${baseline.system}.`
    }
  </p>`;
}

function bestOther({ systems }: BenchResult): SystemResult | null {
  const others = systems.filter(
    (s) => roleOf(s.system) === 'other' && isFigure(s.reductionTemplateFree.median),
  );
  if (others.length === 0) return null;
  return others.reduce((a, b) => (b.reductionTemplateFree.median > a.reductionTemplateFree.median ? b : a));
}

/** What a reader must know before believing a figure. */
export function warnings(result: BenchResult): Markup {
  const wrong = result.systems
    .filter(({ resultsIdentical }) => !resultsIdentical)
    .map(({ system }) => system);
  const list = (items: readonly string[]): Markup =>
    html`<ul>
      ${items.map((item) => html`<li>${item}</li>`)}
    </ul>`;
  const { disturbances, deviations } = result;
  return html`${
    wrong.length > 0
      ? html`<div class="note bad" role="alert">
          <h2>Results differ</h2>
          <p>
            Tools returned other results under <b>${listed(wrong)}</b> than under
            ${baselineOf(result).system}. Figures of a run with a wrong byte mean nothing.
          </p>
        </div>`
      : html`<div class="note good">
          <p><b>Results identical.</b> Every tool call returned the same bytes under every system.</p>
        </div>`
  }
  ${
    disturbances.length > 0
      ? html`<div class="note warn">
          <h2>Disturbed</h2>
          ${list(disturbances)}
        </div>`
      : html`<div class="note good">
          <p><b>Undisturbed.</b> Nothing else was seen to use the machine.</p>
        </div>`
  }
  ${
    deviations.length > 0 &&
    html`<div class="note warn">
      <h2>Deviations</h2>
      ${list(deviations)}
    </div>`
  }`;
}

/** The figures that matter, large. */
export function tiles(result: BenchResult): Markup {
  const subject = subjectOf(result);
  if (subject === baselineOf(result)) return html``;
  const spread = (value: Spread, format: Format): Part => spreadFigure(value, subject.runs, format);
  const tile = (label: string, value: Part, unit: string): Markup =>
    html`<div class="tile">
      <h3>${label}</h3>
      <p>${value}</p>
      <span>${unit}</span>
    </div>`;
  const { p95 } = subject.toolMs;
  return html`<div class="tiles">
    ${tile('Memory', spread(subject.reductionTemplateFree, times), 'less, time average, template not counted')}
    ${tile('With template', spread(subject.reductionTemplateCharged, times), 'less, its base pages charged once')}
    ${tile('With all costs', spread(subject.reductionAllIn, times), 'less, own processes and swap cache added')}
    ${tile('At waits’ end', spread(subject.reductionAtWaitEnd, times), 'less, when the first token arrives')}
    ${tile('Wall time', spread(subject.slowdownWall, times), 'of the time without a system')}
    ${tile('Tool call, p95', figure(subject.toolSlowdown.p95, times), `as long: ${ms(p95)}`)}
  </div>`;
}
