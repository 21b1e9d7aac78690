import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentController } from '../../src/controller/controller.js';
import { Policies } from '../../src/controller/policies.js';
import type { HostAdapter } from '../../src/hosts/adapter.js';
import { createTelemetry, type Telemetry } from '../../src/otel/telemetry.js';
import { withDefaults } from '../../src/policy/defaults.js';
import { LivePolicy } from '../../src/policy/live.js';
import type { PartialPolicy } from '../../src/policy/policy.js';
import { Probes } from '../../src/telemetry/probes.js';
import { Python } from './python.js';
import { ScriptedPager } from './scripted-pager.js';

/** A controller without probes over a scripted pager, real processes for sandboxes, and their common end. */
export class Bench {
  private readonly pythons: Python[] = [];

  private constructor(
    readonly controller: AgentController,
    readonly pager: ScriptedPager,
    readonly folder: string,
    readonly telemetry: Telemetry,
    readonly live: LivePolicy,
  ) {}

  static async start(
    script: Parameters<typeof ScriptedPager.start>[0] = {},
    given: PartialPolicy = {},
    adapters: readonly HostAdapter[] = [],
    /** For the state of an earlier one. */
    folder = mkdtempSync(`${tmpdir()}/agentzip-test-`),
  ): Promise<Bench> {
    const { pager, client } = await ScriptedPager.start(script);
    const policy = withDefaults({
      ...given,
      paths: { stateDir: folder, runtimeDir: folder },
      otel: { file: `${folder}/spans` },
    });
    const live = new LivePolicy(policy);
    const telemetry = createTelemetry(policy.otel, { version: 'test', instance: 'test' });
    const probes = Probes.load({ objectPath: `${folder}/absent.o` });
    const source = { probes, reads: null, warnings: [] };
    const policies = new Policies(live);
    const controller = await AgentController.over(client, policies, telemetry, source, adapters);
    return new Bench(controller, pager, folder, telemetry, live);
  }

  async python(): Promise<Python> {
    const python = await Python.start();
    this.pythons.push(python);
    return python;
  }

  /** Ends the spans too. */
  async close(): Promise<void> {
    await this.controller.close();
    await this.telemetry.shutdown();
  }

  async stop(): Promise<void> {
    for (const python of this.pythons) await python.stop();
    await this.close();
    this.pager.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const UNTIL_MS = 20_000;

/** Waits until it holds, 20 s at most. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + UNTIL_MS; Date.now() < end;) {
    if (await holds()) return;
    await sleep(10);
  }
  throw new Error('it did not come true within 20 s');
}
