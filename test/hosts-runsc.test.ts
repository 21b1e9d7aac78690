import { afterEach, beforeEach, expect, test } from 'vitest';
import { RunscAdapter } from '../src/hosts/runsc.js';
import { ProcFolder } from '../src/hosts/proc-folder.js';
import { HostLayout, type Impostor } from './support/host-layout.js';

let layout: HostLayout;
beforeEach(() => {
  layout = new HostLayout();
});
afterEach(() => layout.stop());

const found = async (pid: number) =>
  (await new RunscAdapter({ mode: 'reclaim' }, layout.root).find()).filter(({ pids = [] }) =>
    pids.includes(pid),
  );

/** A sentry as runsc starts it: the last argument is the id of the sandbox. */
function sentry(id: string, ...more: string[]): Promise<Impostor> {
  const args = [`--root=${layout.path('run/runsc')}`, '--platform=systrap', 'boot', ...more];
  return layout.start('usr/bin/runsc', [...args, id], 'runsc-sandbox');
}

test('a sandbox is its sentry and gofers; memory that they map together goes by a cgroup of their own, or is observed', async () => {
  const bundle = layout.folder('bundle');
  const annotations = {
    'io.kubernetes.cri.image-name': 'img:1',
    'io.kubernetes.cri.sandbox-namespace': 'team-a',
  };
  layout.file('bundle/config.json', JSON.stringify({ ociVersion: '1.0.2', annotations }));
  const boot = await sentry('pod-1', `--bundle=${bundle}`);
  const gofer = await layout.start('usr/bin/runsc', ['gofer', `--bundle=${bundle}`], 'runsc-gofer');
  const other = await layout.start('usr/bin/runsc', ['list'], 'runsc');
  await boot.ask("map_memfd('runsc-memory', 16384)");
  const [sandbox] = await found(boot.pid);
  expect(sandbox).toMatchObject({
    id: 'runsc:pod-1',
    template: 'img:1',
    tenant: 'team-a',
    mode: 'observe',
    hazards: ['shared_memfd'],
  });
  expect(sandbox.pids).toEqual([boot.pid, gofer.pid]);
  expect(await found(other.pid)).toEqual([]);
  expect(sandbox.why).toContain('no memory.reclaim');
  const cgroup = `sys/fs/cgroup${new ProcFolder().cgroup(boot.pid) ?? ''}`;
  layout.file(`${cgroup}/memory.reclaim`, '');
  layout.file(`${cgroup}/cgroup.procs`, `${boot.pid}\n${gofer.pid}\n${other.pid}\n`);
  const [shared] = await found(boot.pid);
  expect(shared).toMatchObject({ mode: 'observe', why: expect.stringContaining('other processes') });
  expect(shared.reclaimCgroup).toBeUndefined();
  layout.file(`${cgroup}/cgroup.procs`, `${boot.pid}\n${gofer.pid}\n`);
  expect((await found(boot.pid))[0]).toMatchObject({
    mode: 'reclaim',
    why: expect.stringContaining('memory.reclaim of its cgroup'),
    reclaimCgroup: layout.path(cgroup),
    hazards: ['shared_memfd'],
  });
  layout.file(`${cgroup}/memory.swap.max`, '0');
  expect((await found(boot.pid))[0]).toMatchObject({ mode: 'observe', hazards: ['shared_memfd', 'no_swap'] });
});

test('what a container of the sandbox says is found in its state file', async () => {
  const boot = await sentry('pod-2');
  const spec = { annotations: { 'agents.x-k8s.io/sandbox-template-ref-hash': 'abc', ignored: 7 } };
  layout.file('run/runsc/c1_sandbox:pod-2.state', JSON.stringify({ id: 'c1', spec }));
  layout.file(
    'run/runsc/c2_sandbox:another.state',
    JSON.stringify({ id: 'c2', spec: { annotations: { 'io.kubernetes.pod.namespace': 'x' } } }),
  );
  const [sandbox] = await found(boot.pid);
  expect(sandbox).toMatchObject({ id: 'runsc:pod-2', template: 'abc', mode: 'observe' });
  expect(sandbox.tenant).toBeUndefined();
});

test('a sandbox without annotations and memory is found too', async () => {
  const boot = await sentry('pod-3');
  const [sandbox] = await found(boot.pid);
  expect(sandbox).toMatchObject({ id: 'runsc:pod-3', mode: 'observe', hazards: [] });
  expect(sandbox.template).toBeUndefined();
});
