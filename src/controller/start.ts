import type { Telemetry } from '../otel/telemetry.js';
import { startPager } from '../pager/start.js';
import { Probes } from '../telemetry/probes.js';
import { adaptersOf } from './sandboxes/adapters.js';
import { chooseFaultSource } from './faults/fault-source.js';
import { AbsentPager } from './absent-pager.js';
import { AgentController, type Controller } from './controller.js';
import type { Policies } from './policies.js';

const MIB = 1 << 20;

/** Starts a controller, and the pager unless one runs. Errors: AZ_PAGER_START and what the pager's start raises. */
export async function createController(policies: Policies, telemetry: Telemetry): Promise<Controller> {
  const policy = policies.live.current;
  const adapters = adaptersOf(policy.hosts);
  if (policies.dryRun) {
    const source = { probes: Probes.load({ faults: false }), reads: null, warnings: [] };
    return AgentController.over(new AbsentPager(), policies, telemetry, source, adapters);
  }
  const { frontEnd, tier, zswap, deviceMiB, storeMiB, stagingMiB, workers, standby } = policy.pager;
  const pager = await startPager({
    runtimeDir: policy.paths.runtimeDir,
    frontEnd,
    tier,
    zswap: { poolPercent: zswap.poolPercent },
    deviceBytes: deviceMiB * MIB,
    storeBytes: storeMiB * MIB,
    stagingBytes: stagingMiB * MIB,
    workers,
    encoding: policy.encoding,
    standby,
  });
  try {
    const source = await chooseFaultSource(pager, Probes.load({ faults: false }), policy.detect);
    return await AgentController.over(pager, policies, telemetry, source, adapters);
  } catch (error) {
    pager.close();
    throw error;
  }
}
