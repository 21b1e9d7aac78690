import { constants } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { eventfd } from '../../native/files.js';
import { Attention } from '../requests/attention.js';
import { NONE } from '../requests/channel.js';
import { UblkControl } from './control.js';
import { Operation, Request } from './protocol.js';
import { UblkQueue } from './queue.js';
import { takeDevice } from './takeover.js';

/** The thread that serves a device whose pages are lost: reads and writes fail, so that whoever waits for them goes on. */
export interface RefuserInput {
  id: number;
  deadPid: number;
}

const WAIT_MS = 1000;
const { id, deadPid } = workerData as RefuserInput;
const queue = new UblkQueue();
const attention = new Attention(new SharedArrayBuffer(4), eventfd());
takeDevice(new UblkControl(), queue, id, deadPid);
parentPort!.postMessage('serves');
while (!queue.gone) {
  const tag = queue.next();
  if (tag === NONE) {
    if (!queue.gone) queue.wait(attention, WAIT_MS);
    continue;
  }
  const operation = queue.descriptors[tag * Request.WORDS + Request.OPERATION] & 0xff;
  const moves = operation === Operation.READ || operation === Operation.WRITE;
  queue.complete(tag, moves ? -constants.errno.EIO : 0);
}
