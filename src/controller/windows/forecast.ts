import { PAGE } from '../../native/libc.js';
import type { Look } from '../../memory/look.js';
import { NO_TEMPLATE_PAGE } from '../../pager/protocol.js';
import type { AddressMapper } from '../claims/address.js';
import { Places } from '../prefetch/places.js';
import type { Candidate } from '../prefetch/prefetch.js';
import { noCounts, type PhaseCounts } from '../prefetch/prefetch-score.js';
import { usesOf, type PrefetchModel, type Scene } from '../prefetch/prefetch-model.js';
import { isDemand, Mark, type Outcome, type Usage } from '../prefetch/usage.js';

/** Which process it is, and what runs in it: see {@link Scene}. */
export type Situation = Pick<Scene, 'role' | 'tool' | 'previous' | 'toolPhases'>;

const NO_SITUATION: Situation = { role: 0, tool: 0, previous: 0, toolPhases: 0 };

/** Pages so near count as being around a page. */
const AROUND = 4;
/** One in so many pages that are sure enough to be mapped is left unmapped, and tells how they fare. */
export const SAMPLE_OF = 8;
/** Of pages that hardly anybody expected, and that were not used, one in so many is learnt from, for as many. */
const RARE_CHANCE = 0.05;
const RARE_OF = 8;

/** What is expected of each page of a process that is out, in address order, when a tool phase begins. */
export class Forecast {
  private constructor(
    readonly pages: readonly number[],
    private readonly scene: Scene,
    private chances: Float32Array,
  ) {}

  /** Something is expected: there is something to learn from. */
  settled = false;

  /** Nothing is expected yet. `map` finds pages in the template; null without one. */
  static of(look: Look, map: AddressMapper | null, usage: Usage): Forecast {
    const pages: number[] = [];
    look.slots.forEach((page) => pages.push(page));
    const count = pages.length;
    const histories = Uint32Array.from(pages, (page) => usage.history(page));
    const scene: Scene = {
      count,
      ...placed(look, pages, map),
      histories,
      neighbours: neighboursUsed(pages, histories),
      ...NO_SITUATION,
    };
    return new Forecast(pages, scene, new Float32Array(count));
  }

  /** Says what is expected now that the situation is known. */
  settle(situation: Situation, model: PrefetchModel): void {
    Object.assign(this.scene, situation);
    this.chances = model.predict(this.scene);
    this.settled = true;
  }

  /** Pages with a chance of at least `least`, in address order. */
  candidates(least: number): Candidate[] {
    const found: Candidate[] = [];
    this.pages.forEach((page, i) => {
      if (this.chances[i] >= least) found.push({ page, chance: this.chances[i] });
    });
    return found;
  }

  /** Pages at most `distance` away from a page, with a chance of at least `chance`. */
  near(page: number, distance: number, chance: number): number[] {
    const found: number[] = [];
    for (let i = this.firstFrom(page - distance); this.pages[i] <= page + distance; i++) {
      if (this.chances[i] >= chance) found.push(this.pages[i]);
    }
    return found;
  }

  /** Has the model learn what became of the pages; ends the phase of their usage. */
  learn(model: PrefetchModel, usage: Usage, outcome: (page: number) => Outcome): PhaseCounts {
    const { pages, scene, chances } = this;
    const counts = noCounts();
    const used = new Uint8Array(scene.count);
    const weight = new Float32Array(scene.count);
    const believed = new Uint8Array(scene.count);
    pages.forEach((page, i) => {
      const mark = usage.mark(page);
      const verdict = usage.verdict(page, outcome(page));
      // What was mapped was all but certain to be used.
      believed[i] = verdict === false ? 0 : 1;
      if ((mark & Mark.MAPPED) !== 0) return;
      used[i] = believed[i];
      weight[i] = (mark & Mark.SAMPLE) !== 0 ? SAMPLE_OF : 1;
      count(counts, mark, verdict === true, weight[i], chances[i]);
      if (verdict === false && isDemand(mark) && chances[i] < RARE_CHANCE) {
        weight[i] = Math.random() * RARE_OF < 1 ? RARE_OF : 0;
      }
    });
    model.learn(scene, used, weight);
    usage.endPhase(pages, (_, i) => believed[i] !== 0);
    return counts;
  }

  private firstFrom(page: number): number {
    let low = 0;
    let high = this.pages.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.pages[middle] < page) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function count(counts: PhaseCounts, mark: number, used: boolean, weight: number, chance: number): void {
  if (isDemand(mark)) {
    if (!used) return;
    counts.demand++;
    if ((mark & Mark.USED) === 0) counts.news++;
    return;
  }
  if (used) counts.used += weight;
  else counts.wasted += weight;
  if ((mark & Mark.AHEAD) !== 0) {
    counts.ahead++;
    if (used) counts.aheadUsed++;
    counts.expectedWaste += used ? 0 : 1;
  } else counts.expectedWaste += weight * (1 - chance);
}

/** Where each page is, and whether the template has it. */
function placed(
  look: Look,
  pages: readonly number[],
  map: AddressMapper | null,
): Pick<Scene, 'places' | 'inTemplate'> {
  const places = new Places(look.vmas);
  const result = { places: new Uint32Array(pages.length), inTemplate: new Uint8Array(pages.length) };
  let vma = 0;
  pages.forEach((page, i) => {
    while (look.vmas[vma].end <= page * PAGE) vma++;
    result.places[i] = places.of(look.vmas[vma], page);
    if (map !== null && map(look.vmas[vma], page) !== NO_TEMPLATE_PAGE) result.inTemplate[i] = 1;
  });
  return result;
}

/** How many of the pages around each were used in the last phase. */
function neighboursUsed(pages: readonly number[], histories: Uint32Array): Uint8Array {
  const result = new Uint8Array(pages.length);
  let first = 0;
  pages.forEach((page, i) => {
    while (pages[first] < page - AROUND) first++;
    for (let j = first; pages[j] <= page + AROUND; j++) {
      if (j !== i && (usesOf(histories[j]) & 1) !== 0) result[i]++;
    }
  });
  return result;
}
