// Stands in for the package `vitest` when node-tools.mjs runs a package's own tests: Vitest's assertions, Node's runner.

const { describe, it, test, beforeEach, afterEach } = require('node:test');
const chai = require('chai');
const { getState, JestAsymmetricMatchers, JestChaiExpect, JestExtend, setState } = require('@vitest/expect');

for (const plugin of [JestExtend, JestChaiExpect, JestAsymmetricMatchers]) chai.use(plugin);
const expect = (value, message) => chai.expect(value, message);
Object.assign(expect, chai.expect, {
  getState: () => getState(expect),
  setState: (s) => setState(s, expect),
});
setState({ assertionCalls: 0, isExpectingAssertions: false, expectedAssertionsNumber: null }, expect);

module.exports = { describe, it, test, beforeEach, afterEach, expect };
