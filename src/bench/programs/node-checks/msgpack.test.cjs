// @msgpack/msgpack publishes no tests; these run on what node-tools.mjs compiles from its sources, changed or not.

const assert = require('node:assert');
const { test } = require('node:test');
const { decode, decodeMulti, encode, Encoder, ExtensionCodec } = require('@msgpack/msgpack');

const there = (value, options) => decode(encode(value, options), options);

test('integers of every size come back', () => {
  for (let bits = 0; bits <= 53; bits++) {
    for (const value of [2 ** bits - 1, 2 ** bits, -(2 ** bits)]) {
      if (Number.isSafeInteger(value)) assert.strictEqual(there(value), value);
    }
  }
});

test('small values take one byte', () => {
  for (const value of [0, 127, -1, -32, true, false, null]) assert.strictEqual(encode(value).length, 1);
});

test('strings in many scripts come back', () => {
  for (const text of ['', 'ascii', 'Größe', '漢字'.repeat(200), '😀'.repeat(70_000)]) {
    assert.strictEqual(there(text), text);
  }
});

test('bytes come back as bytes', () => {
  const bytes = Uint8Array.from({ length: 70_000 }, (_, i) => i * 7);
  assert.deepStrictEqual(there(bytes), bytes);
});

test('dates keep their milliseconds', () => {
  for (const ms of [0, 1, 999, 1_700_000_000_123, -1, 2 ** 40]) {
    assert.strictEqual(there(new Date(ms)).getTime(), ms);
  }
});

test('64-bit integers when asked for', () => {
  const options = { useBigInt64: true };
  for (const value of [0n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n - 1n]) {
    assert.strictEqual(there(value, options), value);
  }
});

test('keys are sorted when asked for', () => {
  const a = encode({ b: 1, a: { d: 2, c: 3 } }, { sortKeys: true });
  assert.deepStrictEqual(a, encode({ a: { c: 3, d: 2 }, b: 1 }, { sortKeys: true }));
});

test('what nests too deep is refused', () => {
  let deep = [];
  for (let i = 0; i < 101; i++) deep = [deep];
  assert.throws(() => encode(deep), /Too deep/);
});

test('an extension has its own type', () => {
  const extensionCodec = new ExtensionCodec();
  extensionCodec.register({
    type: 1,
    encode: (value) => (value instanceof Set ? encode([...value]) : null),
    decode: (data) => new Set(decode(data)),
  });
  assert.deepStrictEqual(there(new Set([1, 2]), { extensionCodec }), new Set([1, 2]));
});

test('several values in a row', () => {
  const encoder = new Encoder();
  const row = Buffer.concat([1, 'two', [3]].map((value) => encoder.encode(value)));
  assert.deepStrictEqual([...decodeMulti(row)], [1, 'two', [3]]);
});

test('repeated keys are decoded alike', () => {
  const rows = Array.from({ length: 300 }, (_, i) => ({ [`key-${i % 40}`]: i, name: 'same' }));
  assert.deepStrictEqual(there(rows), rows);
});
