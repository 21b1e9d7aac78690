import type { OwnProcesses } from '../hosts/plain.js';
import { createMetrics } from '../otel/metrics.js';
import type { Telemetry } from '../otel/telemetry.js';
import type { Pager } from '../pager/client.js';
import type { PagerInfo } from '../pager/protocol.js';
import type { Status } from './api.js';
import { SlotOwners } from './claims/slot-owners.js';
import type { Context } from './context.js';
import { Events } from './events.js';
import type { Policies } from './policies.js';
import { ModelFiles } from './prefetch/model-file.js';
import { Models } from './prefetch/models.js';
import { Predictor } from './prefetch/predictor.js';
import type { Following, ProbeWatcher } from './sandboxes/following.js';
import { Pauses } from './sandboxes/pauses.js';
import { Registry } from './sandboxes/registry.js';
import { readingOf } from './status.js';
import { CapturedTemplates } from './templates/captured-templates.js';
import { Templates } from './templates/templates.js';
import { HostPressure } from './windows/host-pressure.js';
import { Predictions } from './windows/predictions.js';
import { Turns } from './windows/turns.js';

/** What a controller is made over. */
export interface Grounds {
  pager: Pager;
  info: PagerInfo;
  policies: Policies;
  telemetry: Telemetry;
  watcher: ProbeWatcher;
  own: OwnProcesses;
}

/** `controller`: the one that the context is made for; it is not asked for before it is there. */
export async function createContext(
  { pager, info, policies, telemetry, watcher, own }: Grounds,
  controller: () => { status(): Promise<Status>; readonly following: Following },
): Promise<Context> {
  const policy = policies.live.current;
  const registry = new Registry(own, watcher, info.tier);
  const { stateDir, runtimeDir } = policy.paths;
  const captured = new CapturedTemplates(pager, `${stateDir}/captured`, policy, () => registry.all());
  await captured.adopt();
  const checkProcess = (pid: number): void => registry.checkProcess(pid);
  const templates = new Templates(pager, `${stateDir}/templates`, checkProcess, captured);
  const models = new Models(new ModelFiles(`${stateDir}/prefetch`));
  const instruments = () =>
    createMetrics(telemetry.meter, async () =>
      readingOf(await controller().status(), telemetry.droppedSpans()),
    );
  let metrics = instruments();
  telemetry.onRenew = () => (metrics = instruments());
  return {
    ...{ policy, policies, pager, info, registry, templates, telemetry },
    get metrics() {
      return metrics;
    },
    pauses: new Pauses(policies.dryRun ? null : runtimeDir),
    predictor: new Predictor(models, templates, policies, () => info.swapType),
    owners: new SlotOwners(info.slots),
    turns: new Turns(),
    events: new Events(),
    predictions: new Predictions(),
    hostPressure: new HostPressure(policy.pressure),
    pollProbes: () => controller().following.poll(),
    waited: (...found) => controller().following.onDemand(...found),
    knowsLineage: (sandbox) => watcher.complete && controller().following.knowsLineage(sandbox),
  };
}
