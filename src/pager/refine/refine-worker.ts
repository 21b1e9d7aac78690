import { parentPort, workerData } from 'node:worker_threads';
import { gettid, nameThread, threadCpuMs } from '../../native/process.js';
import { monotonicMs } from '../../schedule/clock.js';
import { Clusterer, PASS_PAGES } from '../../store/clusterer.js';
import { PackSet } from '../../store/packs.js';
import { Refiner } from '../../store/refiner.js';
import { Tables } from '../../store/tables.js';
import { Counter, OWNER_STATS, OwnerStat, Volatile } from '../../store/volatile.js';
import { Attention } from '../requests/attention.js';
import { shareAt } from './urgency.js';
import type { RefineReply, RefineRequest, RefineWorkerInput } from '../threads.js';

/**
 * A thread that encodes staged pages. It looks at its window before each page, and is idle work while few wait.
 *
 * Results handed over at a time: waking the data loop costs more than a page.
 */
const RESULTS_A_RING = 16;

const input = workerData as RefineWorkerInput;
const port = parentPort!;
const tables = new Tables(input.store);
const shared = new Volatile(input.volatile, tables);
const packs = new PackSet();
for (const mapping of input.packs) packs.add(mapping);
const attention = new Attention(input.attention, input.wakeFd);
const ring = shared.rings[input.worker];
const refiner = new Refiner(tables, packs, shared.hashes, shared.sketches, ring, input.encoding);
const clusterer = new Clusterer(tables, packs, ring, shared.apart, input.encoding.level);

function refine(batch: RefineRequest & { op: 'refine' }): RefineReply & { trains: boolean } {
  const { owner, domain, slots, templatePages, encoding } = batch;
  refiner.options = { ...input.encoding, ...encoding };
  const pack = packs.get(batch.pack);
  const filled = shared.counters[Counter.STAGED_BYTES] / input.stagingBytes;
  refiner.hurried = shareAt(filled) !== 'idle';
  refiner.rushed = batch.rushed;
  const deferred: number[] = [];
  const before = threadCpuMs();
  refiner.savedBytes = 0;
  let processed = 0;
  let waiting = 0;
  while (processed < slots.length && Atomics.load(shared.windowOpen, owner) === 1) {
    const task = { slot: slots[processed], owner, domain, pack, templatePage: templatePages[processed] };
    const outcome = refiner.refine(task);
    if (outcome === 'deferred') deferred.push(processed);
    if (outcome !== 'gone' && ++waiting === RESULTS_A_RING) {
      attention.ring();
      waiting = 0;
    }
    processed++;
  }
  if (waiting > 0) attention.ring();
  const cpuMs = threadCpuMs() - before;
  shared.ownerStats[owner * OWNER_STATS + OwnerStat.CPU_MS] += cpuMs;
  const { trains, savedBytes } = refiner;
  return { owner, processed, deferred, trains, savedBytes, cpuMs, endedAtMs: monotonicMs() };
}

function shrink({ unclaimed, from }: RefineRequest & { op: 'shrink' }): RefineReply {
  let shrunkTo = from;
  for (let done = 0; done < PASS_PAGES && shrunkTo >= 0; done += RESULTS_A_RING) {
    shrunkTo = refiner.shrink(unclaimed, shrunkTo, RESULTS_A_RING);
    attention.ring();
  }
  return { owner: 0, shrunkTo };
}

function cluster({ task, from }: RefineRequest & { op: 'cluster' }): RefineReply {
  const { owner } = task;
  const before = threadCpuMs();
  const isOpen = (): boolean => Atomics.load(shared.windowOpen, owner) === 1;
  const clusteredTo = clusterer.pass(task, from, PASS_PAGES, isOpen);
  attention.ring();
  shared.ownerStats[owner * OWNER_STATS + OwnerStat.CPU_MS] += threadCpuMs() - before;
  return { owner, clusteredTo, endedAtMs: monotonicMs() };
}

nameThread(`refine-${input.worker}`);
port.postMessage({ thread: gettid() } satisfies RefineReply);
port.on('message', (request: RefineRequest) => {
  if (request.op === 'addPack') packs.add(request.mapping);
  else if (request.op === 'removePack') {
    packs.remove(request.pack);
    port.postMessage({ released: request.pack } satisfies RefineReply);
  } else if (request.op === 'cluster') port.postMessage(cluster(request));
  else if (request.op === 'shrink') port.postMessage(shrink(request));
  else {
    const reply = refine(request);
    port.postMessage(reply);
    if (reply.trains) port.postMessage({ trained: refiner.train() } satisfies RefineReply);
  }
});
