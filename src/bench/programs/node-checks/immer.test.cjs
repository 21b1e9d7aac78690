// immer publishes no tests; these run on what node-tools.mjs compiles from its sources, changed or not.

const assert = require('node:assert');
const { test } = require('node:test');
const immer = require('immer');

const { current, enableMapSet, enablePatches, isDraft, original, produce, produceWithPatches } = immer;
enablePatches();
enableMapSet();

const base = () => ({
  list: [{ id: 1 }, { id: 2 }, { id: 3 }],
  deep: { a: { b: { c: 1 } } },
  tags: new Set(['x']),
});

test('what a recipe does not touch is shared', () => {
  const before = base();
  const after = produce(before, (draft) => void (draft.deep.a.b.c = 2));
  assert.strictEqual(after.list, before.list);
  assert.notStrictEqual(after.deep, before.deep);
  assert.strictEqual(before.deep.a.b.c, 1);
});

test('a recipe that changes nothing gives its base', () => {
  const before = base();
  assert.strictEqual(
    produce(before, (draft) => void (draft.list[0].id = 1)),
    before,
  );
});

test('results are frozen deeply', () => {
  const after = produce(base(), (draft) => void draft.list.push({ id: 4 }));
  assert.ok(Object.isFrozen(after.list[3]));
  assert.throws(() => after.list.push({ id: 5 }), TypeError);
});

test('patches lead there and back', () => {
  const before = base();
  const [after, patches, inverse] = produceWithPatches(before, (draft) => {
    draft.list.splice(1, 1);
    draft.deep.a.new = [1, 2, 3];
    draft.tags.add('y').delete('x');
  });
  assert.deepStrictEqual(immer.applyPatches(before, patches), after);
  assert.deepStrictEqual(immer.applyPatches(after, inverse), before);
});

test('a draft can be looked at', () => {
  const before = base();
  produce(before, (draft) => {
    draft.deep.a.b.c = 7;
    assert.ok(isDraft(draft.deep));
    assert.deepStrictEqual(current(draft.deep), { a: { b: { c: 7 } } });
    assert.strictEqual(original(draft.deep), before.deep);
  });
});

test('maps are drafted', () => {
  const before = new Map([['a', { n: 1 }]]);
  const after = produce(before, (draft) => void draft.set('b', { n: 2 }).get('a').n++);
  assert.deepStrictEqual([...after], [['a', { n: 2 }], ['b', { n: 2 }]]); // prettier-ignore
  assert.strictEqual(before.get('a').n, 1);
});

test('recipes can not both change and replace', () => {
  assert.throws(() => produce({ n: 1 }, (draft) => ({ n: draft.n++ })));
});

test('current refuses what is no draft', () => {
  assert.throws(() => current({}), /current/);
});
