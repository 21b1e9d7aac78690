import { expect, test } from 'vitest';
import { BlockClaims } from '../src/controller/claims/block-claims.js';
import type { Looks } from '../src/controller/claims/claims.js';
import { SlotOwners } from '../src/controller/claims/slot-owners.js';
import type { Context } from '../src/controller/context.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import type { Look } from '../src/memory/look.js';
import { wordTable } from '../src/memory/page-table.js';
import { Usage } from '../src/controller/prefetch/usage.js';
import type { Claim } from '../src/pager/protocol.js';
import { testRandom } from './support/seed.js';

const SLOTS = 64;
const PAGES = 16;

/** What may happen whenever the controller waits for something; nothing, until a test says so. */
type Chance = () => void;

/** Swap on zram with a pager behind it. A page's content is named `SANDBOX:PAGE:VERSION`. */
class Host {
  /** By slot. */
  readonly content = new Map<number, string>();
  readonly placed = new Map<number, number>();
  /** By block, as the pager has it. */
  readonly stored = new Map<
    number,
    { content: string; sequence: number; owner: string | null; read: boolean }
  >();
  readonly claims: { block: number; owner: string; content: string }[] = [];
  sequence = 0;
  /** Writes that the log will have lost when it is next read. */
  losing = 0;
  chance: Chance = () => {};
  private readonly reads: number[] = [];
  private readonly writes: number[] = [];

  take(content: string): number {
    let slot = 1;
    while (this.content.has(slot)) slot++;
    this.content.set(slot, content);
    return slot;
  }

  free(slot: number): void {
    this.content.delete(slot);
    this.placed.delete(slot);
  }

  /** A page of one word, which zram does not write back, begins with "same". */
  writeBack(slot: number): void {
    const content = this.content.get(slot);
    if (content === undefined || this.placed.has(slot) || content.startsWith('same')) return;
    let block = 1;
    while ([...this.placed.values()].includes(block)) block++;
    this.writes.push(block);
    this.stored.set(block, { content, sequence: ++this.sequence, owner: null, read: false });
    this.placed.set(slot, block);
  }

  read(slot: number): void {
    const block = this.placed.get(slot);
    if (block === undefined) return;
    this.reads.push(block);
    const page = this.stored.get(block);
    expect(page?.content, 'zram reads what it has written').toBe(this.content.get(slot));
    page!.read = true;
  }

  readonly pager = {
    takeovers: 0,
    deviceLogs: async () => {
      const log = (of: number[], losing: () => number) => ({
        drain(visit: (block: number) => void) {
          this.lost += losing();
          of.splice(0).forEach(visit);
        },
        lost: 0,
        close: () => {},
      });
      const losing = (): number => {
        const lost = this.losing;
        this.losing = 0;
        return lost;
      };
      return { reads: log(this.reads, () => 0), writes: log(this.writes, losing) };
    },
    request: async () => {
      this.chance();
      return { sequence: this.sequence };
    },
    claim: async ({ slots, owner, sequence, blocks }: Claim) => {
      expect(blocks).toBe(true);
      this.chance();
      const stale: number[] = [];
      slots.forEach((block, at) => {
        const page = this.stored.get(block);
        if (page === undefined || page.sequence > sequence || (page.owner ?? owner) !== owner) {
          stale.push(at);
          return;
        }
        page.owner = owner;
        this.claims.push({ block, owner, content: page.content });
      });
      return { stale };
    },
    watch: async (_owner: string, blocks: Uint32Array) => {
      for (const block of blocks) if (this.stored.has(block)) this.stored.get(block)!.read = false;
      this.chance();
      return this.sequence;
    },
    free: async (owner: string, sequence: number, blocks: Uint32Array) => {
      this.chance();
      for (const block of blocks) {
        const page = this.stored.get(block);
        if (page?.owner === owner && page.sequence <= sequence && !page.read) this.stored.delete(block);
      }
      return 0;
    },
  };
}

/** A sandbox of one process, as far as claims look at it. */
class Box {
  /** By page. */
  readonly slots = new Map<number, number>();
  look: Look | null = null;
  readonly soleSince = 0;
  private version = 0;

  constructor(
    readonly host: Host,
    readonly id: string,
    readonly tag: number,
  ) {}

  readonly domain = 'domain';
  readonly members = new Map([[1, this as never]]);
  wasSole = (): boolean => true;
  readonly usage = new Usage();
  lookBack = (): Look => {
    this.host.chance();
    return (this.look = this.peek());
  };
  peek = (): Look => {
    const slots = wordTable();
    for (const [page, slot] of this.slots) slots.set(page, slot);
    return { slots, vmas: [] } as unknown as Look;
  };

  out(page: number, kind = ''): void {
    if (!this.slots.has(page))
      this.slots.set(page, this.host.take(`${kind}${this.id}:${page}:${this.version++}`));
  }

  back(page: number): void {
    const slot = this.slots.get(page);
    if (slot === undefined) return;
    this.host.read(slot);
    this.slots.delete(page);
    this.host.free(slot);
  }

  asSandbox = (): Sandbox => this as unknown as Sandbox;
}

function setUp() {
  const host = new Host();
  const boxes = [1, 2, 3].map((tag) => new Box(host, `box${tag}`, tag));
  const context = {
    pager: host.pager,
    info: { slots: SLOTS, swapType: 0, device: 'none' },
    owners: new SlotOwners(SLOTS),
    registry: { tagged: (tag: number) => boxes.find((box) => box.tag === tag) },
    templates: { baseFor: () => null },
  } as unknown as Context;
  const claims = new BlockClaims(context, async (slots) => {
    for (const slot of slots) {
      host.chance();
      host.read(slot);
    }
    return true;
  });
  /** What a window does. */
  const window = async (box: Box): Promise<void> => {
    await claims.begin();
    const first = new Map([[box, box.lookBack()]]) as unknown as Looks;
    host.chance();
    for (const slot of [...box.slots.values()]) {
      host.chance();
      host.writeBack(slot);
      host.chance();
      claims.answered(slot);
    }
    await claims.claim(box.asSandbox(), first, new AbortController().signal);
    await claims.free(box.asSandbox());
  };
  return { host, boxes, claims, window };
}

const claimed = (host: Host): string[] => host.claims.map(({ content }) => content).sort();

test('each page that was written back is claimed once, by the block that it is in', async () => {
  const { host, boxes, window } = setUp();
  const [one, two] = boxes;
  for (const page of [1, 2, 3]) one.out(page);
  two.out(1);
  one.out(4, 'same');
  await window(one);
  await window(two);
  expect(claimed(host)).toEqual(['box1:1:0', 'box1:2:1', 'box1:3:2', 'box2:1:0']);
  await window(one);
  expect(host.claims).toHaveLength(4);
});

test('what somebody else has zram write back is nobody’s', async () => {
  const { host, boxes, window } = setUp();
  const [one, two] = boxes;
  one.out(1, 'same');
  two.out(1);
  // Between the wish for a page that zram leaves alone, and its answer.
  let times = 0;
  host.chance = () => {
    if (++times === 4) host.writeBack(two.slots.get(1)!);
  };
  await window(one);
  expect(host.placed.size).toBe(1);
  host.chance = () => {};
  await window(two);
  expect(host.claims).toEqual([]);
});

test('what the pager did not tell of makes nothing certain', async () => {
  const { host, boxes, window } = setUp();
  boxes[0].out(1);
  let times = 0;
  host.chance = () => {
    if (++times === 4) host.losing++;
  };
  await window(boxes[0]);
  expect(host.placed.size).toBe(1);
  expect(host.claims).toEqual([]);
});

test('blocks that zram has let go of are freed, and no others', async () => {
  const { host, boxes, window } = setUp();
  const [one] = boxes;
  for (let page = 1; page <= 8; page++) one.out(page);
  await window(one);
  for (const page of [2, 3, 5]) one.back(page);
  await window(one);
  expect([...host.stored.keys()]).toEqual([1, 4, 6, 7, 8]);
});

test('whatever happens meanwhile, no page is claimed for another sandbox and none freed that zram has', async () => {
  const random = testRandom('block-claims');
  let [claims, freed] = [0, 0];
  for (let round = 0; round < 40; round++) {
    const { host, boxes, window } = setUp();
    const anything: Chance[] = [
      () => boxes[random.below(3)].out(random.below(PAGES)),
      () => boxes[random.below(3)].out(random.below(PAGES), 'same'),
      () => boxes[random.below(3)].back(random.below(PAGES)),
      () => host.read(random.below(SLOTS)),
      () => void (random.below(20) === 0 && host.losing++),
    ];
    const rarely = random.below(2) === 0 ? 2 : 30;
    for (let turn = 0; turn < 30; turn++) {
      for (let i = random.below(40); i > 0; i--) anything[random.below(3)]();
      host.chance = () => {
        if (random.below(rarely) === 0) anything[random.below(anything.length)]();
      };
      const before = host.stored.size;
      await window(boxes[random.below(3)]);
      if (host.stored.size < before) freed++;
      for (const { owner, content } of host.claims) expect(content.replace('same', '')).toMatch(`${owner}:`);
      for (const [slot, block] of host.placed)
        expect(host.stored.get(block)?.content).toBe(host.content.get(slot));
    }
    claims += host.claims.length;
  }
  expect(claims).toBeGreaterThan(500);
  expect(freed).toBeGreaterThan(10);
});
