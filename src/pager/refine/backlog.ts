export interface Pages {
  slots: Uint32Array;
  /** Template address of each, in pages; NO_TEMPLATE_PAGE for none. */
  templatePages: Uint32Array;
}

const NONE = new Uint32Array();
export const NO_PAGES: Pages = { slots: NONE, templatePages: NONE };

/** Pages that wait for a worker, in order. */
export class Backlog {
  private readonly slots: number[] = [];
  private readonly templatePages: number[] = [];
  /** The first that is not handed out. */
  private next = 0;

  get length(): number {
    return this.slots.length - this.next;
  }

  add(slots: ArrayLike<number>, templatePages: ArrayLike<number>): void {
    for (let i = 0; i < slots.length; i++) {
      this.slots.push(slots[i]);
      this.templatePages.push(templatePages[i]);
    }
  }

  /** Hands out the next `limit` at most. */
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
