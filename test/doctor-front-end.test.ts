import { expect, test } from 'vitest';
import { chooseFrontEnd, type FrontEndFacts } from '../src/pager/front-end-choice.js';
import { requireHost } from '../src/plugin/doctor.js';
import { devices } from '../src/plugin/doctor/devices.js';

const facts = (release: string, others: Partial<FrontEndFacts> = {}): FrontEndFacts => ({
  release,
  ublkModule: true,
  nbdModule: false,
  ioUringDisabled: false,
  ...others,
});

test.each(['6.9.0', '6.12.117+deb12-cloud-amd64', '6.16.12-generic', '6.18.0', '7.1.0'])(
  'auto takes ublk on Linux %s',
  (release) => {
    expect(chooseFrontEnd('auto', facts(release))).toMatchObject({
      frontEnd: 'ublk',
      reason: expect.stringContaining(release),
    });
  },
);

test.each([
  ['6.1.0-57-amd64', /before 6\.9/],
  ['6.8.0-45-generic', /CVE-2025-37906/],
  ['6.17.0-1001-aws', /6\.17-aws/],
  ['6.18.40', /never run a control command/],
  ['7.0.14', /never run a control command/],
])('and refuses that of Linux %s, saying why', (release, why) => {
  expect(chooseFrontEnd('auto', facts(release))).toEqual({
    frontEnd: 'fuse-loop',
    reason: expect.stringMatching(why),
  });
  expect(() => chooseFrontEnd('ublk', facts(release))).toThrow(
    expect.objectContaining({ code: 'AZ_UBLK_MISSING', message: expect.stringMatching(why) }),
  );
});

test('without its module, or without io_uring, there is no ublk', () => {
  const none = [facts('6.12.1', { ublkModule: false }), facts('6.12.1', { ioUringDisabled: true })];
  const reasons = none.map((host) => chooseFrontEnd('auto', host).reason);
  expect(reasons).toEqual([expect.stringContaining('ublk_drv'), expect.stringContaining('io_uring')]);
});

test('auto takes nbd where there is no ublk, and fuse-loop where there is neither', () => {
  const old = facts('6.1.0-57-amd64', { nbdModule: true });
  expect(chooseFrontEnd('auto', old)).toEqual({
    frontEnd: 'nbd',
    reason: expect.stringMatching(/^no ublk: .*before 6\.9/),
  });
  const failed = { nbd: 'EPERM' };
  expect(chooseFrontEnd('auto', old, failed)).toEqual({
    frontEnd: 'fuse-loop',
    reason: expect.stringMatching(/^no ublk: .*; no nbd: EPERM$/),
  });
  expect(() => chooseFrontEnd('nbd', facts('6.12.1'))).toThrow(
    expect.objectContaining({ code: 'AZ_NBD_MISSING', message: expect.stringContaining('module nbd') }),
  );
  expect(chooseFrontEnd('nbd', old)).toEqual({ frontEnd: 'nbd', reason: 'set by pager.frontEnd' });
});

test('what the policy names is taken without a look at the kernel, but for ublk and nbd', () => {
  const old = facts('5.15.0', { ublkModule: false });
  expect(chooseFrontEnd('fuse-loop', old)).toEqual({
    frontEnd: 'fuse-loop',
    reason: 'set by pager.frontEnd',
  });
  expect(chooseFrontEnd('ublk', facts('6.12.1')).reason).toBe('set by pager.frontEnd');
});

test('the doctor shows choice and reason, and asks for the files of that front end alone', () => {
  const ublk = devices('auto', { frontEnd: 'ublk', reason: 'Linux 6.12.1 has it' });
  expect(ublk.map(({ id, ok, found }) => ({ id, ok, found }))).toEqual([
    { id: 'front end', ok: true, found: 'ublk (Linux 6.12.1 has it)' },
  ]);
  const fuse = devices('auto', { frontEnd: 'fuse-loop', reason: 'no ublk: none' });
  expect(fuse.map(({ id }) => id)).toEqual(['front end', '/dev/fuse', '/dev/loop-control']);
});

test('ublk that is asked for and can not be used stops the start', () => {
  const choose = (): ReturnType<typeof devices> => {
    try {
      chooseFrontEnd('ublk', facts('6.18.40'));
    } catch (error) {
      return devices('ublk', error as never);
    }
    throw new Error('it was taken');
  };
  expect(() => requireHost(choose())).toThrow(
    expect.objectContaining({ code: 'AZ_UBLK_MISSING', message: expect.stringContaining('6.18.40') }),
  );
});
