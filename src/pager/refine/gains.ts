import { NO_TEMPLATE_PAGE } from '../protocol.js';

/** Classes of pages: 0 has no place in a template, the others are equal parts of the template's addresses. */
export const CLASSES = 9;
/** How much of an average the last batch makes up. */
export const WEIGHT = 1 / 8;
/** Figures of a class: bytes and ms, decayed; first of pages that are new, then of those that were put off. */
const FIGURES = 2;

/** `pages`: how many addresses the template has. */
export function classOf(templatePage: number, pages: number): number {
  if (templatePage === NO_TEMPLATE_PAGE) return 0;
  const part = Math.floor((templatePage / Math.max(1, pages)) * (CLASSES - 1));
  return 1 + Math.min(part, CLASSES - 2);
}

/**
 * What refining a page of a class brings for the processor time it takes, learnt from every batch, by template: sandboxes of one
 * resemble each other, and what lies near together in its addresses is of one kind. Order is all that follows from it, so
 * that tenants of a public template share it.
 */
export class Gains {
  private readonly packs = new Map<number, Float64Array>();

  /** A batch of one class saved so many bytes in so much processor time. */
  learn(pack: number, deferred: boolean, kind: number, savedBytes: number, cpuMs: number): void {
    if (cpuMs <= 0) return;
    let figures = this.packs.get(pack);
    if (figures === undefined) this.packs.set(pack, (figures = new Float64Array(2 * CLASSES * FIGURES)));
    const at = place(deferred, kind);
    figures[at] += (savedBytes - figures[at]) * WEIGHT;
    figures[at + 1] += (cpuMs - figures[at + 1]) * WEIGHT;
  }

  /** Bytes a millisecond; Infinity for what was never tried. */
  expected(pack: number, deferred: boolean, kind: number): number {
    const figures = this.packs.get(pack);
    const at = place(deferred, kind);
    return figures === undefined || figures[at + 1] === 0 ? Infinity : figures[at] / figures[at + 1];
  }

  /** Another template may get its number. */
  forget(pack: number): void {
    this.packs.delete(pack);
  }
}

const place = (deferred: boolean, kind: number): number => ((deferred ? CLASSES : 0) + kind) * FIGURES;
