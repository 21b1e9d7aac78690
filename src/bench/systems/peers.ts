import type { SystemEntry } from '../system.js';
import { Aggressive } from './aggressive.js';
import { Ksm, ksmLacks } from './ksm.js';
import { PeerSystem } from './peer.js';
import { Pressure } from './pressure.js';
import { swapBytes } from './swap-size.js';
import { Zram, zramLacks } from './zram.js';
import { Zswap, zswapLacks } from './zswap.js';

const ZRAM = ['lzo-rle', 'lz4', 'zstd'] as const;
const HOW = {
  pressure: {
    part: () => new Pressure(),
    words: 'under a memory limit of half of what a sandbox has while it waits',
  },
  aggressive: { part: () => new Aggressive(), words: 'with all a sandbox owns paged out at every wait' },
} as const;
type How = keyof typeof HOW;
const HOWS = Object.keys(HOW) as How[];

type ZramName = `zram-${(typeof ZRAM)[number]}-${How}`;
type ZswapName = `zswap-${How}`;
export type PeerName = ZramName | ZswapName | 'ksm' | 'ksm+zram';

const zramEntry = (algorithm: (typeof ZRAM)[number], how: How): [ZramName, SystemEntry] => {
  const name: ZramName = `zram-${algorithm}-${how}`;
  return [
    name,
    {
      description: `the kernel's zram with ${algorithm}, ${HOW[how].words}`,
      requires: () => zramLacks(algorithm),
      make: ({ memoryBytes }) =>
        new PeerSystem(name, () => [new Zram(algorithm, swapBytes(memoryBytes)), HOW[how].part()]),
    },
  ];
};

const zswapEntry = (how: How): [ZswapName, SystemEntry] => {
  const name: ZswapName = `zswap-${how}`;
  return [
    name,
    {
      description: `the kernel's zswap before a swap file, ${HOW[how].words}`,
      requires: zswapLacks,
      make: ({ folder, memoryBytes }) =>
        new PeerSystem(name, () => [
          new Zswap(`${folder}/zswap.swap`, swapBytes(memoryBytes)),
          HOW[how].part(),
        ]),
    },
  ];
};

/** The kernel's own means, and combinations of them. */
export const PEERS = {
  ...(Object.fromEntries([
    ...ZRAM.flatMap((algorithm) => HOWS.map((how) => zramEntry(algorithm, how))),
    ...HOWS.map(zswapEntry),
  ]) as Record<ZramName | ZswapName, SystemEntry>),
  ksm: {
    description: 'KSM over all sandboxes and templates at a high rate; nothing is paged out',
    requires: ksmLacks,
    make: () => new PeerSystem('ksm', (reclaimer) => [new Ksm(reclaimer)]),
  },
  'ksm+zram': {
    description: 'KSM, and zram with lzo-rle: at every wait KSM merges first, then the rest is paged out',
    requires: () => ksmLacks() ?? zramLacks('lzo-rle'),
    make: ({ memoryBytes }) =>
      new PeerSystem('ksm+zram', (reclaimer) => [
        new Ksm(reclaimer),
        new Zram('lzo-rle', swapBytes(memoryBytes)),
        new Aggressive({ mergeFirst: true }),
      ]),
  },
} satisfies Record<PeerName, SystemEntry>;
