// A Node.js agent's tool server, one a sandbox: `node node-tools.mjs PACKAGES HOST_PID`, where the folder PACKAGES has
// what workloads/node-packages.json names. Speaks the protocol of src/bench/program.ts, launch fresh; the workload
// starts it under `setpriv --pdeathsig KILL`, so that it dies with the bench also in the middle of a type check.

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { Session } from './node-session.mjs';

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

/** Answers one tool call after the other until the host hangs up. */
async function serve(session, socket) {
  for await (const line of createInterface({ input: socket })) {
    let answer;
    try {
      const { tool, args } = JSON.parse(line);
      answer = { result: await session.call(tool, args) };
    } catch (error) {
      answer = { error: String(error?.stack ?? error) };
    }
    socket.write(`${JSON.stringify(answer)}\n`);
  }
}

async function become(session, { become: id, socket: path, procs, folder }) {
  writeFileSync(procs, '0');
  process.chdir(folder);
  session.enter(folder);
  const socket = connect(path);
  // The host hung up, or is gone: so is this sandbox, whatever it is doing.
  socket.on('close', () => {
    session.stop();
    process.exit(0);
  });
  socket.on('error', () => undefined);
  socket.write(`${JSON.stringify({ hello: id, pid: process.pid })}\n`);
  await serve(session, socket);
}

async function main() {
  const [packages, host] = process.argv.slice(2);
  if (process.ppid !== Number(host)) process.exit(1); // the bench ended before the death signal was set
  const settings = JSON.parse(
    readFileSync(new URL('../workloads/node-packages.json', import.meta.url), 'utf8'),
  );
  const need = createRequire(`${packages}/package.json`);
  let session;
  try {
    session = new Session(need, packages, settings.subjects);
  } catch (error) {
    if (error?.code !== 'MODULE_NOT_FOUND') throw error;
    say({ missing: 'npm package', reason: error.message.split('\n')[0], package: 'npm' });
    return;
  }
  session.warmUp();
  say({ ready: process.pid });
  // A template gets no order, and ends when its input does.
  for await (const line of createInterface({ input: process.stdin })) {
    await become(session, JSON.parse(line));
    return;
  }
  process.exit(0);
}

await main();
