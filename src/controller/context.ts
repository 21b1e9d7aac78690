import type { Metrics } from '../otel/metrics.js';
import type { Telemetry } from '../otel/telemetry.js';
import type { Pager } from '../pager/client.js';
import type { PagerInfo } from '../pager/protocol.js';
import type { Policy } from '../policy/policy.js';
import type { Events } from './events.js';
import type { OnDemand } from './faults/demand-faults.js';
import type { HostPressure } from './windows/host-pressure.js';
import type { Policies } from './policies.js';
import type { Predictions } from './windows/predictions.js';
import type { Predictor } from './prefetch/predictor.js';
import type { Sandbox } from './sandboxes/sandbox.js';
import type { Pauses } from './sandboxes/pauses.js';
import type { Registry } from './sandboxes/registry.js';
import type { SlotOwners } from './claims/slot-owners.js';

import type { Templates } from './templates/templates.js';
import type { Turns } from './windows/turns.js';

/** What the parts of the controller share. */
export interface Context {
  /** Of the host; what holds for a sandbox is in `policies`. */
  readonly policy: Policy;
  readonly policies: Policies;
  readonly pager: Pager;
  readonly info: PagerInfo;
  readonly registry: Registry;
  readonly pauses: Pauses;
  readonly templates: Templates;
  readonly predictor: Predictor;
  readonly owners: SlotOwners;
  readonly turns: Turns;
  readonly predictions: Predictions;
  readonly hostPressure: HostPressure;
  readonly telemetry: Telemetry;
  readonly metrics: Metrics;
  readonly events: Events;
  /** Takes what the probes have reported and the pager has read so far, before it is built on. */
  readonly pollProbes: () => void;
  /** A tool has waited for a page. */
  readonly waited: OnDemand;
  /** Are all living processes that descend from the sandbox's its members? False when it can not be known. */
  readonly knowsLineage: (sandbox: Sandbox) => boolean;
}
