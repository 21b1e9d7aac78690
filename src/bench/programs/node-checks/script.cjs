// `node script.cjs PACKAGE SEED`: what an agent tries a package with. Prints what it gets, line by line.

const [name, seed] = process.argv.slice(2);
let state = Number(seed) >>> 0;

/** Whole number in [0, below): the "mulberry" generator of src/bench/random.ts. */
function draw(below) {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) % below;
}

const WORDS = 'amber birch cedar delta ember fjord grove heath islet jetty knoll larch'.split(' ');
const word = () => WORDS[draw(WORDS.length)];
const many = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const record = (i) => ({
  id: i,
  name: `${word()}-${word()}`,
  price: draw(100_000) / 100,
  tags: many(draw(5), word),
  owner: { name: word(), age: draw(90) },
});
const print = (value) => console.log(JSON.stringify(value));

const SCRIPTS = {
  zod() {
    const z = require('zod/v3');
    const schema = z.object({
      id: z.number().int().min(draw(50)),
      name: z.string().regex(/^[a-z]+-[a-z]+$/).max(11), // prettier-ignore
      price: z.number().max(900),
      tags: z.array(z.enum(WORDS.slice(draw(6)))).max(3),
      owner: z.object({ name: z.string(), age: z.number().min(18) }).strict(),
    });
    for (const one of many(800, record)) {
      const { success, data, error } = schema.safeParse(one);
      print(success ? data : error.flatten());
    }
  },
  immer() {
    const { enablePatches, produceWithPatches } = require('immer');
    enablePatches();
    let state = { rows: many(100, record), log: [] };
    for (let i = 0; i < 400; i++) {
      const [next, patches] = produceWithPatches(state, (draft) => {
        const row = draft.rows[draw(draft.rows.length)];
        row.owner.age++;
        if (draw(3) === 0) row.tags.push(word());
        if (draw(5) === 0) draft.rows.splice(draw(draft.rows.length), 1, record(1000 + i));
        draft.log.push(row.name);
      });
      state = next;
      print(patches);
    }
    print(state);
  },
  '@msgpack/msgpack'() {
    const { decode, encode } = require('@msgpack/msgpack');
    const rows = many(600, record);
    const bytes = encode(rows, { sortKeys: true });
    console.log(Buffer.from(bytes).toString('base64'));
    for (const row of decode(bytes)) print(row);
  },
  redux() {
    const { combineReducers, legacy_createStore: createStore } = require('redux');
    const rows = (state = {}, { type, row }) => (type === 'put' ? { ...state, [row.name]: row } : state);
    const total = (state = 0, { type, row }) => (type === 'put' ? state + row.price : state);
    const store = createStore(combineReducers({ rows, total }));
    store.subscribe(() => print([store.getState().total, Object.keys(store.getState().rows).length]));
    for (const row of many(600, record)) store.dispatch({ type: 'put', row });
    print(store.getState());
  },
  'find-my-way'() {
    const router = require('find-my-way')({ defaultRoute: () => print('none') });
    const paths = new Set(
      many(200, () => `/${word()}/${draw(2) ? ':id' : word()}/${word()}${draw(9) ? '' : '/*'}`),
    );
    for (const path of paths) router.on('GET', path, (req, res, params) => print([path, params]));
    for (const { name, id } of many(900, record)) {
      router.lookup(
        { method: 'GET', url: `/${name.replace('-', '/')}/${word()}/${id}?x=${id}`, headers: {} },
        null,
      );
    }
    console.log(router.prettyPrint());
  },
};

SCRIPTS[name]();
