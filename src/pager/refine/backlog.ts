import { CLASSES, classOf } from './gains.js';

export interface Pages {
  slots: Uint32Array;
  /** Template address of each, in pages; NO_TEMPLATE_PAGE for none. */
  templatePages: Uint32Array;
}

const NONE = new Uint32Array();
export const NO_PAGES: Pages = { slots: NONE, templatePages: NONE };

/** So often the class that was left alone longest is taken: what it brings may have changed, and none waits for ever. */
const RETRY = 16;

/** Pages that wait for a worker, by class, each class in the order of arrival. */
export class Backlog {
  private readonly classes = Array.from({ length: CLASSES }, () => new Line());
  private batches = 0;
  /** Pages that wait. */
  length = 0;

  /** `templateSize`: how many addresses the template has, in pages. */
  add(slots: ArrayLike<number>, templatePages: ArrayLike<number>, templateSize: number): void {
    for (let i = 0; i < slots.length; i++) {
      this.classes[classOf(templatePages[i], templateSize)].add(slots[i], templatePages[i]);
    }
    this.length += slots.length;
  }

  /** Hands out the next `limit` at most, all of the class that gains most. */
  take(limit: number, gain: (kind: number) => number): Pages & { kind: number } {
    this.batches++;
    const kind = this.batches % RETRY === 0 ? this.oldest() : this.best(gain);
    const line = this.classes[kind];
    line.taken = this.batches;
    const pages = line.take(limit);
    this.length -= pages.slots.length;
    return { kind, ...pages };
  }

  /** Of equals those with a place in the template go first. */
  private best(gain: (kind: number) => number): number {
    let best = -1;
    let most = -Infinity;
    for (let kind = CLASSES - 1; kind >= 0; kind--) {
      if (this.classes[kind].length === 0) continue;
      const expected = gain(kind);
      if (best >= 0 && expected <= most) continue;
      best = kind;
      most = expected;
    }
    return Math.max(0, best);
  }

  private oldest(): number {
    let oldest = -1;
    this.classes.forEach(({ length, taken }, kind) => {
      if (length > 0 && (oldest < 0 || taken < this.classes[oldest].taken)) oldest = kind;
    });
    return Math.max(0, oldest);
  }
}

/** Pages of a class. */
class Line {
  private readonly slots: number[] = [];
  private readonly templatePages: number[] = [];
  /** The first that is not handed out. */
  private next = 0;
  /** Number of the batch that was taken of it last. */
  taken = 0;

  get length(): number {
    return this.slots.length - this.next;
  }

  add(slot: number, templatePage: number): void {
    this.slots.push(slot);
    this.templatePages.push(templatePage);
  }

  take(limit: number): Pages {
    const end = Math.min(this.next + limit, this.slots.length);
    const pages = {
      slots: Uint32Array.from(this.slots.slice(this.next, end)),
      templatePages: Uint32Array.from(this.templatePages.slice(this.next, end)),
    };
    this.next = end;
    if (this.length === 0) this.slots.length = this.templatePages.length = this.next = 0;
    return pages;
  }
}
