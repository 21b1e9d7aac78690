import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { release, version } from 'node:os';
import { badKernel, type BadKernel } from '../../native/kernel-version.js';
import type { TierName } from './tier.js';

export const ZSWAP_PARAMETERS = '/sys/module/zswap/parameters';

/** What can be told about tiers without starting one. */
export interface TierFacts {
  /** Of the kernel, as uname(2) has it. */
  release: string;
  /** zram's module is there, or can be loaded. */
  zramModule: boolean;
  /** Null: not known before a device is made. */
  zramWriteback: boolean | null;
  zswap: boolean;
}

/** Kernels whose zswap must not be used. */
const BAD_ZSWAP: readonly BadKernel[] = [
  ['0', '5', 'has not been tried: use Linux 6.1 or later'],
  ['6.0', '6.0', 'may write back what another page is (fixed by 04fc7816089c in 6.4 and 6.1.30)'],
  ['6.1.0', '6.1.29', 'may write back what another page is (fixed by 04fc7816089c in 6.4 and 6.1.30)'],
  ['6.2', '6.3', 'may write back what another page is (fixed by 04fc7816089c in 6.4 and 6.1.30)'],
  ['6.5', '6.8', 'loses pages where zram is swap too (fixed by 25cd241408a2 in 6.9)'],
];

/**
 * The packages of Debian call 6.1.192 "6.1.0-57-amd64"; the version of the build, as uname(2) has it, ends with that of the source:
 * "#1 SMP Debian 6.1.192-3". Not /proc/version, where the compiler's is the first after "Debian".
 */
export function sourceRelease(named: string, build: string): string {
  return /\bDebian (\d+\.\d+\.\d+)/.exec(build)?.[1] ?? named;
}

/** What it is called that a tier can not be had. */
export const MISSING_TIER = { direct: null, zswap: 'AZ_ZSWAP_MISSING', zram: 'AZ_ZRAM_MISSING' } as const;

/** Why a tier can not be had here, or null. */
export function tierObstacle(tier: TierName, facts: TierFacts): string | null {
  if (tier === 'direct') return null;
  if (tier === 'zram') {
    if (!facts.zramModule) return 'the kernel has no module zram';
    return facts.zramWriteback === false ? 'the kernel has no writeback (CONFIG_ZRAM_WRITEBACK)' : null;
  }
  if (!facts.zswap) return 'the kernel has no zswap (CONFIG_ZSWAP)';
  const bad = badKernel(BAD_ZSWAP, facts.release);
  return bad === undefined ? null : `zswap of Linux ${facts.release} ${bad}`;
}

/** `CONFIG_NAME=y` or m in the text of a kernel's configuration; null when there is no text. */
const configured = (text: string | null, name: string): boolean | null =>
  text === null ? null : new RegExp(`^${name}=[ym]$`, 'm').test(text);

const readText = (path: string): string | null => {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
};

export function readTierFacts(): TierFacts {
  const control = '/sys/class/zram-control';
  return {
    release: sourceRelease(release(), version()),
    // -n loads nothing.
    zramModule: existsSync(control) || spawnSync('modprobe', ['-n', '-q', 'zram']).status === 0,
    zramWriteback: configured(readText(`/boot/config-${release()}`), 'CONFIG_ZRAM_WRITEBACK'),
    zswap: existsSync(ZSWAP_PARAMETERS),
  };
}
