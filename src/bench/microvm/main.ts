import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { explain } from '../../errors.js';
import type { Order } from '../program.js';
import { Machine } from './machine.js';
import { lastWords, type Snapshot, takeSnapshot } from './snapshot.js';

/**
 * What a platform of microVMs does: `main.js FILES ROOT TASK_FILE HOST_PID`, a program of ../program.ts, launch fork. It
 * boots and warms a guest, saves it, and starts each sandbox from what it saved. It stands between a sandbox's port and
 * the host's socket, outside of the sandbox. Machines die with it.
 */

const say = (value: object): void => void process.stdout.write(`${JSON.stringify(value)}\n`);

/** A sandbox: a machine in the cgroup it was given, that ends when its socket hangs up. */
async function fork(snapshot: Snapshot, id: string, order: Order): Promise<void> {
  const console = `${order.folder}/console`;
  const machine = await Machine.restore(snapshot, { procs: order.procs, console });
  const { port, pid } = machine;
  const host = connect(order.socket);
  host.on('error', () => undefined); // it hangs up then, too
  port.on('error', () => undefined);
  // Which of them hung up: a machine that ends by itself closes its port before it is gone.
  let hungUp: 'host' | 'machine' | undefined;
  port.on('end', () => (hungUp ??= 'machine'));
  host.on('close', () => {
    hungUp ??= 'host';
    void machine.end();
  });
  void machine.ended.then(() => {
    if (hungUp !== 'host') {
      const said = lastWords(console);
      process.stderr.write(`${id}: its machine ended (${machine.outcome}); its console says: ${said}\n`);
    }
    host.destroy();
  });
  host.write(`${JSON.stringify({ hello: id, pid })}\n`);
  host.pipe(port);
  port.pipe(host);
  await machine.run();
  say({ forked: id, pid });
}

async function main(): Promise<void> {
  const [files, root, taskFile, host] = process.argv.slice(2);
  if (process.ppid !== Number(host)) process.exit(1); // the bench ended before the death signal was set
  const snapshot = await takeSnapshot({ files, root, taskFile });
  say({ ready: process.pid, memoryFile: snapshot.memory });
  for await (const line of createInterface({ input: process.stdin })) {
    const { fork: id, ...order } = JSON.parse(line) as Order & { fork: string };
    fork(snapshot, id, order).catch((error: unknown) => {
      process.stderr.write(`${id}: ${explain(error)}\n`);
    });
  }
  process.exit(0);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${explain(error)}\n`);
  process.exit(1);
}
