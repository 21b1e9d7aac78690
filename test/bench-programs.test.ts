import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { leftCgroups } from '../src/bench/cgroups.js';
import type { RunRecord } from '../src/bench/record.js';
import { leftAccounting } from '../src/bench/sandbox-cpu.js';
import { NoSystem } from '../src/bench/systems/none.js';
import { agent, fanOut, smallTemplate } from './support/fan-out.js';

const results = (run: RunRecord, sandbox: string): unknown[] =>
  run.calls.filter((call) => call.sandbox === sandbox).map((call) => JSON.parse(call.result));

/** Commands of processes that this test started and that still run. */
const left = (): string[] =>
  readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes('agentzip-test-bench-')
          ? readFileSync(`/proc/${pid}/cmdline`, 'latin1')
          : '';
      } catch {
        return '';
      }
    })
    .filter(Boolean);

describe('programs of a workload', () => {
  it('are forked or started afresh, several in one run, each sandbox in a folder of its own', async () => {
    const forked = smallTemplate('forked', 'fork', 'acme', 'a', 'b');
    const fresh = smallTemplate('fresh', 'fresh', 'umbrella');
    const seen: string[] = [];
    class Watching extends NoSystem {
      override async addTemplate(id?: string, tenant?: string, pid?: number): Promise<void> {
        seen.push(`${id} of ${tenant}: ${Number(pid) > 0}`);
      }
      override async addSandbox(id?: string, template?: string, tenant?: string): Promise<void> {
        seen.push(`${id} from ${template} of ${tenant}`);
      }
    }
    const calls = [
      { tool: 'where', args: {} },
      { tool: 'keep', args: { text: 'one' } },
      { tool: 'keep', args: { text: 'two' } },
      { tool: 'write', args: { name: 'x' } },
    ];
    const trajectories = [
      agent('box-1', forked, calls),
      agent('box-2', forked, calls),
      agent('box-3', fresh, calls),
    ];
    const run = await fanOut({ templates: [forked, fresh], trajectories }, new Watching());
    const expected = (id: string, args: string[]): unknown[] => [
      { id, args, empty: true, leads: true },
      ['one'],
      ['one', 'two'],
      ['x'],
    ];
    expect(results(run, 'box-1')).toEqual(expected('box-1', ['a', 'b']));
    expect(results(run, 'box-2')).toEqual(expected('box-2', ['a', 'b']));
    expect(results(run, 'box-3')).toEqual(expected('box-3', []));
    // Two sandboxes start at a time: which of them is there first is theirs to say.
    expect([...seen.slice(0, 2), ...seen.slice(2).sort()]).toEqual([
      'forked of acme: true',
      'fresh of umbrella: true',
      'box-1 from forked of acme',
      'box-2 from forked of acme',
      'box-3 from fresh of umbrella',
    ]);
    expect([...left(), ...leftCgroups(), ...leftAccounting()]).toEqual([]);
  });

  it.each(['fork', 'fresh'] as const)(
    'that are launched %s end with their children, and the run waits for it',
    async (launch) => {
      const template = smallTemplate('template', launch, 'acme');
      const trajectories = [agent('box-1', template, [{ tool: 'linger', args: {} }])];
      await fanOut({ templates: [template], trajectories });
      expect([...left(), ...leftCgroups(), ...leftAccounting()]).toEqual([]);
    },
  );

  it('fail with the words of the tool', async () => {
    const template = smallTemplate('template', 'fresh', 'acme');
    const trajectories = [agent('box-1', template, [{ tool: 'fail', args: {} }])];
    await expect(fanOut({ templates: [template], trajectories })).rejects.toMatchObject({
      code: 'AZ_WORKLOAD_FAILED',
      message: expect.stringContaining('as asked'),
    });
    expect([...left(), ...leftCgroups(), ...leftAccounting()]).toEqual([]);
  });

  it('name the Debian package of a library that is missing', async () => {
    const template = smallTemplate('template', 'fork', 'acme', 'missing');
    await expect(fanOut({ templates: [template], trajectories: [] })).rejects.toMatchObject({
      code: 'AZ_LIBRARY_MISSING',
      message: expect.stringContaining('xyz.part'),
      remedy: 'apt-get install python3-xyz',
    });
  });
});
