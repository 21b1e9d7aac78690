import { expect, test } from 'vitest';
import { STANDBY_PATIENCE, Watchdog } from '../src/pager/succession/watchdog.js';

/** Counts how often a watchdog found that it hangs. */
function watch(patience?: number) {
  const state = { answered: 1, waiting: 1, hangs: 0 };
  const watched = { answered: () => state.answered, waiting: () => state.waiting };
  const dog = new Watchdog(watched, () => state.hangs++, patience);
  const checks = (count: number, step: () => void = () => {}): void => {
    for (let i = 0; i < count; i++) {
      step();
      dog.check();
    }
  };
  return { state, checks };
}

test('a pager that answers nothing while something waits hangs, and it is said once', () => {
  const { state, checks } = watch();
  checks(5);
  expect(state.hangs).toBe(0);
  checks(1);
  expect(state.hangs).toBe(1);
  checks(20);
  expect(state.hangs).toBe(1);
});

test('one answer now and then is enough', () => {
  const { state, checks } = watch();
  let i = 0;
  checks(50, () => (state.answered += Number(i++ % 4 === 0)));
  expect(state.hangs).toBe(0);
});

test('an idle pager does not hang', () => {
  const { state, checks } = watch();
  state.waiting = 0;
  checks(50);
  expect(state.hangs).toBe(0);
});

test('before its first answer it is left alone', () => {
  const { state, checks } = watch();
  state.answered = 0;
  checks(50);
  expect(state.hangs).toBe(0);
});

test('the standby is more patient: a pager that can end itself has done so before', () => {
  const [pager, standby] = [watch(), watch(STANDBY_PATIENCE)];
  pager.checks(STANDBY_PATIENCE);
  standby.checks(STANDBY_PATIENCE);
  expect([pager.state.hangs, standby.state.hangs]).toEqual([1, 0]);
  standby.checks(1);
  expect(standby.state.hangs).toBe(1);
});
