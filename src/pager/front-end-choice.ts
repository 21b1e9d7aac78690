import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { AgentZipError } from '../errors.js';
import { badKernel, type BadKernel } from '../native/kernel-version.js';
import type { FrontEndName } from './requests/channel.js';

/** `pager.frontEnd` of the policy. */
export type FrontEndSetting = FrontEndName | 'auto';

export interface FrontEndChoice {
  frontEnd: FrontEndName;
  /** Why this one, for people. */
  reason: string;
}

/** What the choice rests on. */
export interface FrontEndFacts {
  /** Of the kernel, as uname(2) has it. */
  release: string;
  /** Its module is there, or can be loaded. */
  ublkModule: boolean;
  /** The same of NBD. */
  nbdModule: boolean;
  /** io_uring is turned off by the host's administrator. */
  ioUringDisabled: boolean;
}

/** Kernels whose ublk must not be used. */
const BAD_KERNELS: readonly BadKernel[] = [
  [
    '0',
    '6.8',
    'can not delete a device without waiting (before 6.9), may oops (SPDK #2880, #3384) or panic when one is closed (CVE-2025-37906)',
  ],
  ['6.17', '6.17', 'may oops when a device is added (Ubuntu 6.17-aws) or leave a killed server in D state'],
  ['6.18.1', '6.18', 'may never run a control command (seen in 6.18.40)'],
  ['6.19', '7.0', 'may never run a control command (seen in 7.0.0 and 7.0.14)'],
];

/** Why ublk can not be used here, or null. */
export function ublkObstacle(facts: FrontEndFacts): string | null {
  const bad = badKernel(BAD_KERNELS, facts.release);
  if (!facts.ublkModule) return 'the kernel has no module ublk_drv';
  if (bad !== undefined) return `ublk of Linux ${facts.release} ${bad}`;
  if (facts.ioUringDisabled) return 'kernel.io_uring_disabled is set';
  return null;
}

/** What `auto` prefers: see docs/front-ends.md. */
const AUTO: readonly FrontEndName[] = ['ublk', 'nbd', 'fuse-loop'];

/** Why one can not be used, or null; the files that fuse-loop needs are looked for when it is taken. */
function obstacle(frontEnd: FrontEndName, facts: FrontEndFacts): string | null {
  if (frontEnd === 'ublk') return ublkObstacle(facts);
  return frontEnd === 'nbd' && !facts.nbdModule ? 'the kernel has no module nbd' : null;
}

const MISSING = { ublk: 'AZ_UBLK_MISSING', nbd: 'AZ_NBD_MISSING', 'fuse-loop': 'AZ_FUSE_MISSING' } as const;

/**
 * The front end that the pager takes. `failed`: those that could not be used after all, and why. AZ_UBLK_MISSING or
 * AZ_NBD_MISSING when it is asked for and can not be used.
 */
export function chooseFrontEnd(
  setting: FrontEndSetting,
  facts: FrontEndFacts = readFacts(),
  failed: Partial<Record<FrontEndName, string>> = {},
): FrontEndChoice {
  if (setting !== 'auto') {
    const reason = obstacle(setting, facts);
    if (reason !== null) throw new AgentZipError(MISSING[setting], { reason });
    return { frontEnd: setting, reason: 'set by pager.frontEnd' };
  }
  const passed: string[] = [];
  for (const frontEnd of AUTO) {
    const why = failed[frontEnd] ?? obstacle(frontEnd, facts);
    if (why === null) {
      const reason = passed.length === 0 ? `Linux ${facts.release} has it` : passed.join('; ');
      return { frontEnd, reason };
    }
    passed.push(`no ${frontEnd}: ${why}`);
  }
  throw new AgentZipError('AZ_FUSE_MISSING', { reason: passed.join('; ') });
}

/** Which front end an error says can not be used. */
export const missingFrontEnd = (error: AgentZipError): FrontEndName | undefined =>
  AUTO.find((frontEnd) => MISSING[frontEnd] === error.code);

function readFacts(): FrontEndFacts {
  return {
    release: release(),
    ublkModule: existsSync(CONTROL) || isLoadable('ublk_drv'),
    nbdModule: existsSync(NBD) || isLoadable('nbd'),
    ioUringDisabled: isIoUringDisabled(),
  };
}

const CONTROL = '/dev/ublk-control';

const NBD = '/sys/module/nbd';

/** Loads nothing. */
const isLoadable = (module: string): boolean => spawnSync('modprobe', ['-n', '-q', module]).status === 0;

function isIoUringDisabled(): boolean {
  try {
    // 1: for those without CAP_SYS_ADMIN
    return readFileSync('/proc/sys/kernel/io_uring_disabled', 'utf8').trim() === '2';
  } catch {
    return false; // before 6.6
  }
}

/** Loads the kernel module of a front end when it is not there yet. */
export function loadModule(frontEnd: FrontEndName): void {
  if (frontEnd === 'ublk' && !existsSync(CONTROL)) spawnSync('modprobe', ['-q', 'ublk_drv']);
  if (frontEnd === 'nbd' && !existsSync(NBD)) spawnSync('modprobe', ['-q', 'nbd']);
}
