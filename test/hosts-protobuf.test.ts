import { expect, test } from 'vitest';
import { encode, Message, type Value } from '../src/hosts/protobuf.js';
import { testRandom } from './support/seed.js';

const ROUNDS = 300;

// From https://protobuf.dev/programming-guides/encoding.
test.each<[string, [number, Value][], string]>([
  ['a number', [[1, 150]], '089601'],
  ['a text', [[2, 'testing']], '120774657374696e67'],
  ['a message', [[3, encode([1, 150])]], '1a03089601'],
  ['nothing', [], ''],
])('%s is written as the others do', (_what, fields, hex) => {
  expect(Buffer.from(encode(...fields)).toString('hex')).toBe(hex);
});

test('what is written is read, in any order, and what is not there is empty', () => {
  const entry = encode([1, 'key'], [2, 'value']);
  const message = new Message(
    encode([2, 'twö'], [1, 2 ** 40 + 1], [500, entry], [500, entry], [3, encode([1, 7])]),
  );
  expect([message.number(1), message.text(2), message.message(3).number(1)]).toEqual([2 ** 40 + 1, 'twö', 7]);
  expect([message.texts(500), message.messages(500)]).toEqual([
    { key: 'value' },
    [expect.anything(), expect.anything()],
  ]);
  expect([message.number(9), message.text(9), message.messages(9), message.message(9).text(1)]).toEqual([
    0,
    '',
    [],
    '',
  ]);
  // Fixed numbers, which nothing here uses, are stepped over.
  const fixed = Buffer.from('0900000000000000000d00000000100a', 'hex');
  expect(new Message(fixed).number(2)).toBe(10);
});

test('bytes that are none are refused, and never read beyond', () => {
  for (const hex of ['08', '0880', '1205aa', '0b', '0d00'])
    expect(() => new Message(Buffer.from(hex, 'hex')), hex).toThrow(RangeError);
  const random = testRandom('hosts-protobuf');
  for (let round = 0; round < ROUNDS; round++) {
    try {
      new Message(random.bytes(random.below(40))).text(1);
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError);
    }
  }
});
