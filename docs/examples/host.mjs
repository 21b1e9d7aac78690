// A host platform in 50 lines: one sandbox (a Python process), an agent's turn, AgentZip in this process.
// Run as root: node docs/examples/host.mjs [runtime directory]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAgentZip } from 'agentzip';

const dir = process.argv[2] ?? '/run/agentzip';
const agentzip = await createAgentZip({
  policy: {
    paths: { runtimeDir: dir, stateDir: `${dir}/state` },
    pager: { deviceMiB: 512, storeMiB: 128, stagingMiB: 64 },
  },
  // Any OpenTelemetry SpanExporter; this one prints what each window did.
  spanExporter: {
    export(spans, done) {
      for (const { name, attributes } of spans)
        if (name === 'agentzip.window') console.log('span', name, attributes['agentzip.window.end_reason']);
      done({ code: 0 });
    },
    shutdown: async () => {},
  },
  onError: (error) => console.error(error.code, error.message, error.remedy),
});
console.log('mode', agentzip.policy.mode);
agentzip.on('windowEnded', ({ sandbox, window }) => console.log('window of', sandbox, window.reason));

// The sandbox: 32 MiB that a template would mostly share; here they are its own.
const work = 'import sys; m = [bytes([i % 251]) * 4096 for i in range(8192)]; print(1, flush=True)';
const sum = 'for line in sys.stdin: print(sum(map(len, m)), flush=True)';
const child = spawn('/usr/bin/python3', ['-c', `${work}\n${sum}`], { stdio: ['pipe', 'pipe', 'inherit'] });
await once(child.stdout, 'data');

try {
  const box = await agentzip.sandbox('box-1', { pids: [child.pid], tenant: 'acme' });
  const before = await box.status();
  box.requestSent({ expectedMs: 20_000, model: 'large' }); // the agent asks its model: memory goes out …
  let during = before;
  for (let i = 0; i < 100 && during.swappedBytes < before.ownedBytes / 2; i++) {
    await sleep(100);
    during = await box.status();
  }
  box.firstToken();
  box.responseEnd({ tool: 'sum' }); // … and what the tool will use comes back
  child.stdin.write('go\n');
  const [answer] = await once(child.stdout, 'data');
  console.log('owned MiB', before.ownedBytes >> 20, 'then', during.ownedBytes >> 20);
  console.log('tool says', String(answer).trim());
  await box.remove();
} finally {
  child.kill();
  await agentzip.stop();
}
