import { expect, test } from 'vitest';
import { probes } from '../src/plugin/doctor/probes.js';

const PROCESSES = ['process_fork', 'process_exec', 'process_exit', 'socket_closed'];

test('the doctor names the probes that run, and what stands in for those of sockets', () => {
  const attached = [...PROCESSES, 'socket_sent_fexit', 'socket_arrived_fentry', 'socket_read_fentry'];
  expect(probes({ attached, warnings: [] })).toMatchObject({
    ...{ id: 'probes', level: 'optional', ok: true, found: attached.join(', ') },
  });
});

test('without those that tell phases the doctor says that they are missing, and why', () => {
  const why = 'AZ_PROBE_FAILED: probe socket_sent could not be loaded: no such file';
  expect(probes({ attached: PROCESSES, warnings: [why] })).toMatchObject({
    ok: false,
    found: `${PROCESSES.join(', ')}; ${why}`,
  });
  expect(probes({ attached: [], warnings: [why] })).toMatchObject({ ok: false, found: why });
});
