import { test } from 'vitest';
import { runInGuest } from '/work/wt-standby/test/support/vm.ts';
test('dbg', { timeout: 400_000 }, async () => {
  const r = await runInGuest('/var/cache/agentzip-vm/linux-image-6.12-cloud-amd64', process.env.SCRIPT!, {
    timeoutMs: Number(process.env.TO ?? 120000),
    cpus: Number(process.env.CPUS ?? 1),
  });
  console.log(r.lines.join('\n'), 'STATUS', r.status);
});
