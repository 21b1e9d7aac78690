import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { failed } from '../lines.js';
import type { Status, System } from '../system.js';
import type { Template } from '../template.js';
import { faultFigures, pageOutFigures, rate, type Round } from './figures.js';
import { swapDevice, type RoundOptions } from './kernel.js';
import { followPageOut, pageOutDirectly, type PageOut } from './pageout.js';
import type { Subject } from './subject.js';
import { threadSecondsNamed } from './threads.js';

const POLL_MS = 100;
const REFINE_LIMIT_MS = 120_000;
const WINDOW_LIMIT_MS = 60_000;
/** Pages of the subject that may be unclaimed when refinement counts as done: written again, or not its own alone. */
const UNCLAIMED = 0.02;
/** The data loop gives memory back every 50 ms, half of the spare segments at a time. */
const TRIM_MS = 1000;
/**
 * What is timed by asking is asked for more often, but not much: each answer looks through page tables and the store, and with
 * one every 5 ms a prefetch took half as long again.
 */
const QUICK_POLL_MS = 50;

export interface ZipRound {
  figures: Round;
  /** Pages by encoding when all were out and refined. */
  encodings: Status['pager']['encodings'];
}

/**
 * AgentZip as a host uses it: `service` runs with its prefetch off. Its window pages the subject out and refines;
 * what is measured after the first token are faults on refined pages.
 */
export async function measureStore(
  service: System,
  subject: Subject,
  template: Template,
  options: RoundOptions,
): Promise<ZipRound> {
  const { seed, faults, signal } = options;
  await register(service, subject, template);
  const { pid } = (await statusOf(service)).pager;
  const before = threadSecondsNamed(pid, 'refine-');
  const first = await openWindow(service, subject, signal);
  await refined(service, subject, signal);
  const refineSeconds = threadSecondsNamed(pid, 'refine-') - before;
  await sleep(TRIM_MS, undefined, { signal });
  const full = await statusOf(service);
  const { bytesIn } = await closeWindow(service, subject, signal);
  const random = await subject.faults(seed, faults);

  const second = await openWindow(service, subject, signal);
  await refined(service, subject, signal);
  await closeWindow(service, subject, signal);
  const seconds = await subject.sequential();
  await subject.verify();
  await service.removeSandbox(subject.id);
  return {
    encodings: full.pager.encodings,
    figures: {
      ...faultFigures('fault', random),
      ...pageOutFigures('pageout', first),
      restoreMBps: rate(second.released.pages, seconds),
      refineMBpsPerCore: bytesIn / 1e6 / refineSeconds,
      ...storeFigures(full),
      pagesOut: first.released.pages,
      faults: random.us.length,
      passedOver: random.passed,
      timingUs: random.timingUs,
      ...(await measureDevice(subject, options)),
    },
  };
}

/** The device alone, without windows: what is written stays as it is, and faults find it raw. */
async function measureDevice(subject: Subject, { seed, faults }: RoundOptions): Promise<Round> {
  await subject.change(seed + 1);
  const device = swapDevice();
  const out = await pageOutDirectly(subject, device);
  const random = await subject.faults(seed, faults);
  const again = await pageOutDirectly(subject, device);
  const seconds = await subject.sequential();
  await subject.verify();
  return {
    ...pageOutFigures('devicePageout', out),
    ...faultFigures('rawFault', random),
    rawRestoreMBps: rate(again.released.pages, seconds),
  };
}

function storeFigures({ pager }: Status): Round {
  const { store, usedSlots } = pager;
  return {
    metadataBytesPerPage: (store.tableUsedBytes + store.indexUsedBytes) / usedSlots,
    metadataHeldBytesPerPage: (store.tableHeldBytes + store.indexHeldBytes) / usedSlots,
    storedBytesPerPage: store.arenaUsedBytes / usedSlots,
    fragmentation: (store.arenaHeldBytes - store.arenaUsedBytes) / store.arenaHeldBytes,
    arenaHeldBytes: store.arenaHeldBytes,
    arenaUsedBytes: store.arenaUsedBytes,
    poolBytes: pager.poolBytes,
  };
}

/**
 * The product's own restore path: `service` runs with its prefetch on. A first tool phase uses every page, so that at
 * the next first token all are put back.
 */
export async function measurePrefetch(
  service: System,
  subject: Subject,
  template: Template,
  { signal }: RoundOptions,
): Promise<Round> {
  await register(service, subject, template);
  await openWindow(service, subject, signal);
  await refined(service, subject, signal);
  await closeWindow(service, subject, signal);
  await service.event(subject.id, { type: 'tool_start' });
  await subject.sequential();
  await service.event(subject.id, { type: 'tool_end' });
  await openWindow(service, subject, signal);
  await refined(service, subject, signal);
  const out = subject.swapped();
  const from = performance.now();
  await service.event(subject.id, { type: 'llm_first_token' });
  // Nothing was put back before: the first window had no tool phase to learn from.
  const back = async (): Promise<number | null> =>
    (await lastWindow(service, subject))?.prefetchedPages || null;
  const prefetchedPages = await until('the end of a prefetch', WINDOW_LIMIT_MS, signal, back, QUICK_POLL_MS);
  const seconds = (performance.now() - from) / 1000;
  if (prefetchedPages < out / 2) throw failed(`AgentZip put back ${prefetchedPages} pages of ${out}`);
  await subject.verify();
  await service.removeSandbox(subject.id);
  return { prefetchMBps: rate(prefetchedPages, seconds), prefetchedPages };
}

async function register(service: System, subject: Subject, template: Template): Promise<void> {
  await service.addTemplate(template.id, template.tenant, template.pid);
  await service.addSandbox(subject.id, template.id, template.tenant, subject.cgroup);
}

async function openWindow(service: System, subject: Subject, signal: AbortSignal): Promise<PageOut> {
  const from = performance.now();
  // Its length is said: waits that end as soon as all is out would soon be left alone.
  await service.event(subject.id, { type: 'llm_request_sent', expectedMs: WINDOW_LIMIT_MS });
  return followPageOut(subject, from, signal);
}

type Summary = NonNullable<NonNullable<Awaited<ReturnType<System['account']>>>['lastWindow']>;

async function closeWindow(service: System, subject: Subject, signal: AbortSignal): Promise<Summary> {
  const before = await lastWindow(service, subject);
  await service.event(subject.id, { type: 'llm_first_token' });
  return windowEnded(service, subject, before, signal);
}

async function lastWindow(service: System, subject: Subject): Promise<Summary | null> {
  return (await service.account(subject.id))?.lastWindow ?? null;
}

/** The summary of the window that ended after `before` did. */
async function windowEnded(
  service: System,
  subject: Subject,
  before: Summary | null,
  signal: AbortSignal,
): Promise<Summary> {
  return until('the end of a window', WINDOW_LIMIT_MS, signal, async () => {
    const summary = await lastWindow(service, subject);
    return isDeepStrictEqual(summary, before) ? null : summary;
  });
}

/** Waits until the subject's pages are claimed and none of them is staged. */
async function refined(service: System, subject: Subject, signal: AbortSignal): Promise<void> {
  await until('refinement', REFINE_LIMIT_MS, signal, async () => {
    const { encodings, usedSlots, foreignSlots } = (await statusOf(service)).pager;
    const claimed = usedSlots - foreignSlots >= (1 - UNCLAIMED) * subject.pages;
    return claimed && encodings.staged <= foreignSlots ? true : null;
  });
}

async function statusOf(service: System): Promise<Status> {
  const { status } = await service.pools();
  if (status === null) throw failed(`${service.name} has no status`);
  return status;
}

/** Asks until the answer is not null. */
async function until<T>(
  what: string,
  limitMs: number,
  signal: AbortSignal,
  ask: () => Promise<T | null>,
  pollMs = POLL_MS,
): Promise<T> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (answer !== null) return answer;
    if (Date.now() > deadline) throw failed(`${what} took longer than ${limitMs / 1000} s`);
    await sleep(pollMs, undefined, { signal });
  }
}
