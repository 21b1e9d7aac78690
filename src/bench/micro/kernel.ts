import { swapAreas } from '../../memory/swap.js';
import { failed } from '../lines.js';
import type { System } from '../system.js';
import { faultFigures, pageOutFigures, rate, type Round } from './figures.js';
import { pageOutDirectly } from './pageout.js';
import type { Subject } from './subject.js';

export interface RoundOptions {
  seed: number;
  /** Random faults timed. */
  faults: number;
  signal: AbortSignal;
}

/** Measures swap of the kernel, which `system` has turned on, with a subject that has all its pages. */
export async function measureKernelSwap(
  system: System,
  subject: Subject,
  { seed, faults, signal }: RoundOptions,
): Promise<Round> {
  const device = swapDevice();
  const poolBefore = (await system.pools()).pool;
  const first = await pageOutDirectly(subject, device);
  const stored = (await system.pools()).pool - poolBefore;
  signal.throwIfAborted();
  const random = await subject.faults(seed, faults);
  const second = await pageOutDirectly(subject, device);
  const seconds = await subject.sequential();
  await subject.verify();
  return {
    ...faultFigures('fault', random),
    ...pageOutFigures('pageout', first),
    restoreMBps: rate(second.released.pages, seconds),
    storedBytesPerPage: stored / first.released.pages,
    pagesOut: first.released.pages,
    faults: random.us.length,
    passedOver: random.passed,
    timingUs: random.timingUs,
  };
}

/** The swap area that pages go to: the one with the highest priority. */
export function swapDevice(): string {
  const [first] = swapAreas().sort((a, b) => b.priority - a.priority);
  if (first === undefined) throw failed('no swap is on');
  return first.path;
}
