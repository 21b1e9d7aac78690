import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { runDetect } from '../src/bench/detect/detect.js';
import { packageRoot } from '../src/paths.js';
import { probesMissing } from './fixtures/toucher.js';

const schema = JSON.parse(
  readFileSync(`${packageRoot}/src/bench/detect/detect.schema.json`, 'utf8'),
) as object;

describe.skipIf(probesMissing() !== null)('bench --detect', () => {
  it('compares phases with the truth, in the form of the schema', { timeout: 120_000 }, async () => {
    const folder = mkdtempSync(`${tmpdir()}/agentzip-detect-`);
    const lines: string[] = [];
    try {
      const result = await runDetect({
        ...{ sandboxes: 2, turns: 3, seed: 5, timeScale: 0.5, rounds: 2, json: `${folder}/detect.json` },
        command: 'agentzip bench --detect',
        screen: { write: (text: string) => lines.push(text) },
        signal: new AbortController().signal,
      });
      const written: unknown = JSON.parse(readFileSync(`${folder}/detect.json`, 'utf8'));
      const isResult = new Ajv({ allErrors: true }).compile(schema);
      expect(isResult(written), JSON.stringify(isResult.errors)).toBe(true);
      expect(written).toEqual(result);
      // Low bounds: the machine of the tests may be busy. The figures themselves are the bench's to give.
      expect(result.precision).toBeGreaterThan(0.9);
      expect(result.recall).toBeGreaterThan(0.8);
      expect(result.firstTokenMs.count).toBeGreaterThanOrEqual(4);
      expect(result.firstTokenMs.missed).toBe(0);
      expect(result.toolStartMs.count).toBeGreaterThanOrEqual(4);
      expect(result.toolStartMs.missed).toBe(0);
      expect(result.overhead.rounds.faultNs.min).toBeGreaterThan(0);
      expect(lines.join('')).toContain('recall of llm_wait');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
