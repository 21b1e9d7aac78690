// redux publishes no tests; these run on what node-tools.mjs compiles from its sources, changed or not.

const assert = require('node:assert');
const { test } = require('node:test');
const redux = require('redux');

const { applyMiddleware, bindActionCreators, combineReducers, compose, isAction, isPlainObject } = redux;
const createStore = redux.legacy_createStore;

const counter = (state = 0, { type, by = 1 }) => (type === 'add' ? state + by : state);
const names = (state = [], { type, name }) => (type === 'name' ? [...state, name] : state);

test('a store holds what its reducer returns', () => {
  const store = createStore(counter);
  store.dispatch({ type: 'add' });
  store.dispatch({ type: 'add', by: 4 });
  assert.strictEqual(store.getState(), 5);
});

test('listeners hear of every action until they leave', () => {
  const store = createStore(counter, 10);
  const heard = [];
  const leave = store.subscribe(() => heard.push(store.getState()));
  store.dispatch({ type: 'add' });
  store.dispatch({ type: 'none' });
  leave();
  store.dispatch({ type: 'add' });
  assert.deepStrictEqual(heard, [11, 11]);
});

test('combined reducers keep what did not change', () => {
  const store = createStore(combineReducers({ counter, names }));
  const before = store.getState();
  store.dispatch({ type: 'add' });
  assert.strictEqual(store.getState().names, before.names);
  const after = store.getState();
  store.dispatch({ type: 'none' });
  assert.strictEqual(store.getState(), after);
});

test('a reducer that returns undefined is named', () => {
  const reducer = combineReducers({
    counter,
    broken: (state = 1, { type }) => (type === 'break' ? undefined : state),
  });
  const store = createStore(reducer);
  assert.throws(() => store.dispatch({ type: 'break' }), /"broken" returned undefined/);
});

test('compose goes from right to left', () => {
  const twice = (x) => x * 2;
  const next = (x) => x + 1;
  assert.strictEqual(compose(twice, next, (a, b) => a + b)(3, 4), 16);
  assert.strictEqual(compose()(5), 5);
});

test('middleware sees actions first', () => {
  const seen = [];
  const log = () => (next) => (action) => {
    seen.push(action.type);
    return next(action);
  };
  const thunk = (api) => (next) => (action) => (typeof action === 'function' ? action(api) : next(action));
  const store = createStore(counter, applyMiddleware(thunk, log));
  store.dispatch(({ dispatch }) => dispatch({ type: 'add', by: 3 }));
  assert.deepStrictEqual([seen, store.getState()], [['add'], 3]);
});

test('action creators are bound', () => {
  const store = createStore(counter);
  const bound = bindActionCreators({ add: (by) => ({ type: 'add', by }), none: 1 }, store.dispatch);
  bound.add(6);
  assert.deepStrictEqual([Object.keys(bound), store.getState()], [['add'], 6]);
});

test('what is no plain object is refused', () => {
  const store = createStore(counter);
  class Add {
    type = 'add';
  }
  assert.throws(() => store.dispatch(new Add()), /plain objects/);
  assert.throws(() => store.dispatch({ type: 1 }), /must be a string/);
});

test('plain objects and actions', () => {
  assert.deepStrictEqual([{}, Object.create(null), [], new Map(), null].map(isPlainObject), [true, true, false, false, false]); // prettier-ignore
  assert.deepStrictEqual([{ type: 'a' }, { type: 1 }, {}, null].map(isAction), [true, false, false, false]);
});
