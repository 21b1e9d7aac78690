import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Observer } from '../src/bench/detect/observer.js';
import { cgroupMounts, memoryCgroupId } from '../src/memory/cgroup.js';
import { Probes } from '../src/telemetry/probes.js';
import { probesMissing, Recorder } from './fixtures/toucher.js';
import { Python } from './support/python.js';

const TAG = 4;
const MOUNT = cgroupMounts().find(({ memory }) => memory)?.path;
const FOLDER = `${MOUNT}/agentzip-test-entering-${process.pid}`;

function missing(): boolean {
  if (probesMissing() !== null) return true;
  if (MOUNT !== undefined) return false;
  if (process.env.CI) throw new Error('CI must have the memory controller');
  process.stderr.write('SKIPPED: entering is not tested here, for want of a memory cgroup\n');
  return true;
}

/** Runs a command in a cgroup as `docker exec` does: moved there by somebody outside, and then executed. */
async function enter(folder: string, command: string): Promise<number> {
  const child = spawn('/bin/sh', ['-c', `echo $$ > ${folder}/cgroup.procs; exec ${command}`], {
    stdio: 'inherit',
  });
  await once(child, 'exit');
  return child.pid as number;
}

describe.skipIf(missing())('a process that is brought into a cgroup', () => {
  let probes: Probes;
  let python: Python;
  beforeEach(async () => {
    mkdirSync(`${FOLDER}/one/two`, { recursive: true });
    python = await Python.start();
    writeFileSync(`${FOLDER}/cgroup.procs`, String(python.pid));
    probes = Probes.load();
    expect(probes.warnings).toEqual([]);
  });
  afterEach(async () => {
    await python.stop();
    for (const folder of ['/one/two', '/one', '']) {
      await expect.poll(() => rmdirSync(FOLDER + folder), { timeout: 5000 }).toBeUndefined();
    }
    probes.close();
  });
  const id = (): bigint => memoryCgroupId(FOLDER) as bigint;

  it.each(['', '/one/two'])('or one below it (%j) is tracked from its exec on', async (below) => {
    probes.addCgroup(id(), TAG);
    const seen = new Recorder();
    const pid = await enter(FOLDER + below, 'sleep 0.05');
    probes.poll(seen);
    expect(seen.others).toEqual([
      ['entered', TAG, pid],
      ['exec', TAG, pid, 'sleep'],
      ['exit', TAG, pid],
    ]);
  });

  it('that is nobody’s, or nobody’s any more, is not', async () => {
    const seen = new Recorder();
    await enter(FOLDER, 'true');
    probes.addCgroup(id(), TAG);
    probes.removeCgroup(id());
    await enter(FOLDER, 'true');
    probes.addCgroup(id(), TAG);
    await enter(MOUNT!, 'true');
    probes.poll(seen);
    expect(seen.others).toEqual([]);
  });

  it('is a tool call of an agent outside, which waits when it has ended', async () => {
    probes.addCgroup(id(), TAG);
    const observer = new Observer(probes);
    try {
      observer.add(TAG, [python.pid]);
      const phase = (): string => observer.timelines.get(TAG)!.phaseAt(Infinity);
      for (let call = 0; call < 2; call++) {
        const ended = enter(FOLDER, 'sleep 0.5');
        await expect.poll(phase, { interval: 2 }).toBe('tool_running');
        await ended;
        expect(phase()).toBe('tool_running');
        await expect.poll(phase, { timeout: 10_000 }).toBe('llm_wait');
      }
    } finally {
      observer.close();
    }
  });
});

it('a cgroup that is not one of the memory controller’s has no id', () => {
  expect(memoryCgroupId(undefined)).toBeNull();
  expect(memoryCgroupId('agentzip-no-such-group')).toBeNull();
});
