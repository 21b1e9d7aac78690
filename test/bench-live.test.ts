import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { runBench } from '../src/bench/bench.js';

const schema = JSON.parse(readFileSync(new URL('../src/bench/bench.schema.json', import.meta.url), 'utf8'));

describe('a bench of AgentZip on real swap', () => {
  it('runs none beside it, finds the same results, and accounts for its processes', async () => {
    const printed: string[] = [];
    const { systems, ...result } = await runBench({
      ...{ workload: 'demo', systems: ['agentzip-no-windows', 'agentzip'], runs: 1, sandboxes: 2, turns: 2 },
      ...{ seed: 5, timeScale: 0.4, files: '/var/tmp', command: 'agentzip bench' },
      screen: { write: (text) => printed.push(text) },
      signal: new AbortController().signal,
    });
    const validate = new Ajv({ allowUnionTypes: true }).compile(schema);
    expect(validate({ ...result, systems }), JSON.stringify(validate.errors)).toBe(true);
    expect(systems.map(({ system }) => system)).toEqual(['none', 'agentzip-no-windows', 'agentzip']);
    const [none, clocked, zip] = systems;
    for (const system of systems) expect(system.resultsIdentical).toBe(true);
    expect(none.cpuSeconds).toMatchObject({ controller: { max: 0 }, pager: { max: 0 } });
    for (const { cpuSeconds, memory } of [clocked, zip]) {
      expect(cpuSeconds.controller.median).toBeGreaterThan(0);
      expect(cpuSeconds.pager.median).toBeGreaterThan(0);
      expect(memory.poolMean.median).toBeGreaterThan(0);
    }
    expect(zip.faults.prefetched).toBeGreaterThan(0);
    expect(printed.join('')).toContain('host clean');
  }, 240_000);
});
