import { writeSync } from 'node:fs';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { Workspace } from '../../codec/kernels.js';
import { explain } from '../../errors.js';
import { RobustMutex } from '../../native/robust-mutex.js';
import { gettid, nameThread, schedule } from '../../native/process.js';
import { WRITER_MUTEX_AT } from '../../store/layout.js';
import { isReadable, mapPack, PackSet, type PackMapping } from '../../store/packs.js';
import { recover } from '../../store/recovery.js';
import { Store, STORE_BYTES } from '../../store/store.js';
import { Tables } from '../../store/tables.js';
import { Volatile } from '../../store/volatile.js';
import { Attention } from './attention.js';
import { channelBytes, openChannel } from '../front-ends.js';
import { FreeMemory } from './free-memory.js';
import { Inbox } from './inbox.js';
import { SlotLogWriter } from './slot-log.js';
import type { DataLoopInput, DataLoopNotice, DataLoopReply, DataLoopRequest, Started } from '../threads.js';
import { warmUp } from '../process/warm-up.js';

/**
 * The thread that owns the tables. It answers the kernel's requests, and between them takes in what the refine
 * workers have encoded and what the control thread asks. Requests come first: of the rest it does a little at a time.
 */
const RESULTS_A_TURN = 4;
const NICE = -20;
/** How often memory is given back, and how much is done each time: some 10 ms when there is much of it. */
const HOUSE = { everyMs: 50, objects: 4000, punches: 20, segments: 64 };
/**
 * Memory kept ready for pages to come while the machine has little: the kernel looks for memory by sending pages here, so what
 * stores them must not have to ask it for some. Each page stored lets the kernel have one, so it need not last for long.
 */
const HEADROOM_BYTES = 4 * 2 ** 20;

const input = workerData as DataLoopInput;
const port = parentPort!;
const tables = new Tables(input.store);
const shared = new Volatile(input.volatile, tables);
const packs = new PackSet();
const scratch = channelBytes(input.channel);
const workspace = new Workspace(scratch + STORE_BYTES);
// All of it present: a request whose page has to be faulted in when we are killed is failed by the kernel.
workspace.bytes.fill(0);
const store = new Store(tables, shared, packs, workspace, {
  fd: input.storeFd,
  stagingBytes: input.stagingBytes,
  scratch,
});
const memory = new FreeMemory();
const attention = new Attention(input.attention, input.wakeFd);
/** Mapped packs by number. */
const packPaths = new Map<number, { path: string; mapping: PackMapping }>();
const channel = openChannel(input.channel, store, workspace, input.deadPid);
const reads = new SlotLogWriter(input.readLog);
const writes = new SlotLogWriter(input.writeLog);
const inbox = new Inbox(channel, tables.slots, reads, writes);

function commitResults(limit: number): boolean {
  let more = false;
  for (const ring of shared.rings) {
    let left = limit;
    while (left > 0 && store.commitNext(ring)) left--;
    more ||= left === 0;
  }
  return more;
}

function answer(request: DataLoopRequest): DataLoopReply {
  const { id } = request;
  switch (request.op) {
    case 'claim': {
      const { owner, sequence, slots, soleSince, apart } = request;
      return { id, ...store.claim(owner, sequence, slots, soleSince, apart) };
    }
    case 'forget':
      store.forget(request.owner, request.ended);
      return { id };
    case 'expect':
      inbox.expect(request.slots);
      return { id };
    case 'watch':
      return { id, sequence: store.watch(request.owner, request.slots) };
    case 'free':
      return { id, freed: store.free(request.owner, request.sequence, request.slots) };
    case 'doubtSole':
      store.doubtSole();
      return { id };
    case 'giveWay':
      // Nothing that was taken from the kernel is left unanswered, so nothing has to be sent again (which Linux can from 6.9 on).
      while (inbox.work());
      while (commitResults(Infinity));
      return process.kill(process.pid, 'SIGKILL') as never;
    case 'clear':
      store.discard(0, tables.slots);
      return { id };
    case 'flush':
      while (commitResults(Infinity));
      return { id };
    case 'addDictionary': {
      const { domain, bytes, replaces } = request.trained;
      store.dictionaries.add(domain, bytes, replaces);
      return { id };
    }
    case 'addPack':
      packs.add(request.mapping);
      packPaths.set(request.mapping.pack, request);
      return { id };
    case 'removePack': {
      const removed = store.objects.packUses[request.pack] === 0;
      if (removed) {
        packs.remove(request.pack);
        packPaths.delete(request.pack);
      }
      return { id, removed };
    }
  }
}

/** Everything but requests of the kernel; rings again when more is left than one turn may take. */
function attend(): void {
  attention.clear();
  if (commitResults(RESULTS_A_TURN)) attention.ring();
  for (let message; (message = receiveMessageOnPort(port)) !== undefined;) {
    port.postMessage(answer(message.message as DataLoopRequest));
  }
}

let keptHouseAt = performance.now();
let punchesLeft = 0;

/**
 * Sees to the headroom, and gives memory back that is no longer needed, a step at a time: a fault may come at any moment, and
 * is looked for in between. False when there is nothing to do for now.
 */
function keepHouse(): boolean {
  if (performance.now() - keptHouseAt >= HOUSE.everyMs) {
    keptHouseAt = performance.now();
    punchesLeft = HOUSE.punches;
    store.keepHeadroom(memory.isLittle ? HEADROOM_BYTES : 0);
    store.objects.compact(HOUSE.objects);
    inbox.age();
  }
  if (store.isUnprepared && memory.isThere && store.prepare()) return true;
  if (punchesLeft === 0) return false;
  punchesLeft = store.giveBack(HOUSE.segments) ? punchesLeft - 1 : 0;
  return punchesLeft > 0;
}

/** Blocks until there is something to do. */
function rest(): void {
  if (keepHouse()) return;
  // Attend even when the flag is down: a late ring leaves the eventfd readable, and poll would spin on it.
  if (channel.wait(attention, HOUSE.everyMs)) attend();
}

function serve(): void {
  for (;;) {
    if (attention.wanted) attend();
    if (inbox.makeRoom()) {
      if (inbox.receive()) continue;
      if (channel.gone) return;
    }
    if (!inbox.work() && !attention.wanted) rest();
  }
}

/**
 * Every fault of a sandbox waits for this thread. With a nice value alone it would: a thread that is woken does not
 * interrupt one that runs before this has had its slice, some 3 ms (EEVDF). What the host does not permit is said.
 */
function takePrecedence(): void {
  for (const share of ['realtime', NICE] as const) {
    try {
      return schedule(gettid(), share);
    } catch (error) {
      writeSync(
        2,
        `agentzip-pager: the data loop may not be scheduled as ${share} (${explain(error)}): faults may wait\n`,
      );
    }
  }
}

/** Maps what the store names and the lifeline has not told in time. A pack that is gone costs the pages that rest on it. */
function findPacks(): PackMapping[] {
  const found: PackMapping[] = [];
  for (const [path, pack] of new Tables(input.store).packs.entries()) {
    try {
      const known = packPaths.get(pack);
      const usable = known?.path === path && isReadable(known.mapping);
      const mapping = usable ? known.mapping : mapPack(pack, path);
      packs.add(mapping);
      packPaths.set(pack, { path, mapping });
      found.push(mapping);
    } catch (error) {
      // It may have been mapped before: to touch what is gone would end this process, too.
      packs.remove(pack);
      packPaths.delete(pack);
      writeSync(2, `agentzip-pager: ${(error as Error).message}\n`);
    }
  }
  return found;
}

/**
 * Becomes the one writer of the store, which the holder of its mutex is. The kernel passes the mutex on when the
 * thread that has it dies: the end of its process may come much later, for it waits for threads that wait for the
 * device (swapoff does).
 */
function begin(): Started {
  const writer = new RobustMutex(input.store.address + WRITER_MUTEX_AT);
  warmUp(workspace, input.channel);
  takePrecedence(); // not before: a pager that serves has the processor first
  if (input.deadPid === null) {
    writer.init();
    writer.lock();
    return { ...recover(store, shared), packs: [], takeoverMs: 0, resent: false };
  }
  port.postMessage({ parked: true } satisfies DataLoopNotice);
  writer.lock();
  const from = performance.now();
  attend(); // packs
  const found = findPacks();
  const counts = recover(store, shared);
  const resent = channel.resume();
  return { ...counts, packs: found, takeoverMs: performance.now() - from, resent };
}

nameThread('data-loop');
try {
  port.postMessage({ started: begin() } satisfies DataLoopNotice);
  serve();
  port.postMessage({ ended: true } satisfies DataLoopNotice);
  // The end of this thread is the signal to the standby, which has to be dismissed first.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
} catch (error) {
  // Without this loop the rest of the process could wait for the device for ever. Its end closes the device.
  writeSync(2, `agentzip-pager: data loop: ${(error as Error).stack}\n`);
  process.kill(process.pid, 'SIGKILL');
}
