import { expect, test } from 'vitest';
import { hashOf, nextHistory, PrefetchModel, type Scene } from '../src/controller/prefetch/prefetch-model.js';
import { testRandom } from './support/seed.js';

const PAGES = 400;
const ALL = new Float32Array(PAGES).fill(1);

/** One process that runs one tool after the other; knows what each tool uses. */
class Subject {
  private readonly histories = new Uint32Array(PAGES);
  private readonly tools: string[] = [];

  constructor(
    readonly model: PrefetchModel,
    private readonly uses: (tool: string, page: number) => boolean,
  ) {}

  scene(tool: string): Scene {
    return {
      count: PAGES,
      places: Uint32Array.from({ length: PAGES }, (_, page) => page),
      inTemplate: new Uint8Array(PAGES).fill(1),
      histories: this.histories,
      neighbours: new Uint8Array(PAGES),
      role: hashOf('python3#0'),
      tool: hashOf(tool),
      previous: hashOf(this.tools[0] ?? ''),
      toolPhases: this.tools.reduce((bits, ran, i) => (ran === tool ? bits | (1 << i) : bits), 0),
    };
  }

  /** Part of the bets at a chance of `least` that were right, and part of the uses that were bet on. */
  score(tool: string, least = 0.5): { accuracy: number; coverage: number } {
    const chances = this.model.predict(this.scene(tool));
    let [bets, right, used] = [0, 0, 0];
    chances.forEach((chance, page) => {
      const wanted = this.uses(tool, page);
      used += Number(wanted);
      bets += Number(chance >= least);
      right += Number(chance >= least && wanted);
    });
    return { accuracy: bets === 0 ? 1 : right / bets, coverage: right / used };
  }

  run(tool: string, weight = ALL): void {
    const used = Uint8Array.from({ length: PAGES }, (_, page) => Number(this.uses(tool, page)));
    this.model.learn(this.scene(tool), used, weight);
    used.forEach((was, page) => (this.histories[page] = nextHistory(this.histories[page], was !== 0)));
    this.tools.unshift(tool);
    this.tools.length = Math.min(this.tools.length, 16);
  }
}

const TOOLS = ['read', 'test', 'edit'];

/** Each tool uses a tenth of the pages, drawn at random in runs of eight, and all use the first twenty. */
function habits(random: ReturnType<typeof testRandom>): (tool: string, page: number) => boolean {
  const own = new Map(
    TOOLS.map((tool) => [tool, new Set(Array.from({ length: 5 }, () => random.below(PAGES / 8)))]),
  );
  return (tool, page) => page < 20 || own.get(tool)!.has(page >>> 3);
}

test('what each tool uses is learnt from a few of its phases', () => {
  const random = testRandom('habits of tools');
  const subject = new Subject(new PrefetchModel(), habits(random));
  for (let phase = 0; phase < 18; phase++) subject.run(TOOLS[random.below(TOOLS.length)]);
  for (const tool of TOOLS) {
    subject.run(tool);
    const { accuracy, coverage } = subject.score(tool);
    expect(accuracy, tool).toBeGreaterThan(0.9);
    expect(coverage, tool).toBeGreaterThan(0.9);
  }
});

test('a new sandbox profits from what its siblings did', () => {
  const random = testRandom('siblings');
  const model = new PrefetchModel();
  const uses = habits(random);
  for (let sibling = 0; sibling < 12; sibling++) {
    const subject = new Subject(model, uses);
    for (const tool of TOOLS) subject.run(tool);
  }
  const fresh = new Subject(model, uses);
  const { accuracy, coverage } = fresh.score('read', 0.3);
  expect(accuracy).toBeGreaterThan(0.9);
  expect(coverage).toBeGreaterThan(0.9);
});

test('nothing is expected by a model that has seen nothing, nor of another model’s sandboxes', () => {
  const random = testRandom('apart');
  const uses = habits(random);
  const taught = new Subject(new PrefetchModel(), uses);
  const other = new Subject(new PrefetchModel(), uses);
  const before = other.model.predict(other.scene('read'));
  expect(Math.max(...before)).toBeLessThan(0.6);
  for (let phase = 0; phase < 6; phase++) taught.run('read');
  expect(other.model.predict(other.scene('read'))).toEqual(before);
});

test('when habits change the old ones are forgotten', () => {
  const random = testRandom('new habits');
  const [old, current] = [habits(random), habits(random)];
  let changed = false;
  const subject = new Subject(new PrefetchModel(), (tool, page) => (changed ? current : old)(tool, page));
  for (let phase = 0; phase < 20; phase++) subject.run(TOOLS[random.below(TOOLS.length)]);
  changed = true;
  for (let phase = 0; phase < 40; phase++) subject.run(TOOLS[random.below(TOOLS.length)]);
  for (const tool of TOOLS) {
    const { accuracy, coverage } = subject.score(tool);
    expect(accuracy, tool).toBeGreaterThan(0.8);
    expect(coverage, tool).toBeGreaterThan(0.8);
  }
});

test('a sample of the pages, weighted, teaches what all of them would', () => {
  const random = testRandom('samples');
  const uses = habits(random);
  const subject = new Subject(new PrefetchModel(), uses);
  for (let phase = 0; phase < 60; phase++) {
    const weight = Float32Array.from({ length: PAGES }, () => (random.below(4) === 0 ? 4 : 0));
    subject.run(TOOLS[random.below(TOOLS.length)], weight);
  }
  for (const tool of TOOLS) {
    const { accuracy, coverage } = subject.score(tool);
    expect(accuracy, tool).toBeGreaterThan(0.8);
    expect(coverage, tool).toBeGreaterThan(0.8);
  }
});

test('chances at random are told as they are: right as often as they say', () => {
  const random = testRandom('calibration');
  const subject = new Subject(new PrefetchModel(), () => random.below(10) < 3);
  for (let phase = 0; phase < 40; phase++) subject.run('read');
  const chances = subject.model.predict(subject.scene('read'));
  const mean = chances.reduce((sum, chance) => sum + chance, 0) / PAGES;
  expect(mean).toBeGreaterThan(0.2);
  expect(mean).toBeLessThan(0.4);
});

test('any number of contexts takes the same memory, and what is in use stays known', () => {
  const random = testRandom('bounded');
  const { table } = new PrefetchModel();
  const bytes = (): number =>
    Object.values(table.columns).reduce((sum, { byteLength }) => sum + byteLength, 0);
  const before = bytes();
  const kept = Array.from({ length: 100 }, () => random.below(2 ** 32));
  for (let phase = 0; phase < 20; phase++) {
    table.nextPhase();
    for (const context of kept) table.add(context, true, 1);
    for (let i = 0; i < 50_000; i++) table.add(random.below(2 ** 32), false, 1);
  }
  expect(bytes()).toBe(before);
  const known = kept.filter((context) => table.find(context) >= 0 && table.chance(table.find(context)) > 0.8);
  expect(known.length).toBeGreaterThan(95);
});
