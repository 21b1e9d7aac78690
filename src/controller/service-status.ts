import type { AgentZipError } from '../errors.js';
import { version } from '../paths.js';
import { tierUse } from '../memory/tier-use.js';
import type { PagerStatus } from '../pager/protocol.js';
import type { Status } from './api.js';
import type { Context } from './context.js';
import { compresses } from './policies.js';
import { alertsOf, lookToShow, policyAlerts, policyStatus, sandboxStatus } from './status.js';

/** How old what a status shows of each sandbox's memory may be. */
const SHOWN_MS = 1000;

/** What only the controller knows of itself. */
export interface OwnState extends Pick<Status, 'enabled' | 'probes' | 'hosts'> {
  /** Unix time in ms. */
  startedAt: number;
  /** See TierChange. */
  tierFailure: AgentZipError | null;
}

/** The status of the whole service. */
export async function serviceStatus(context: Context, pager: PagerStatus, own: OwnState): Promise<Status> {
  await lookToShow(context, context.registry.all(), SHOWN_MS);
  const { registry, templates, predictor, info, hostPressure, policy, policies } = context;
  const templateStatuses = templates.statuses(pager.packs, predictor.models);
  return {
    version,
    uptimeMs: Date.now() - own.startedAt,
    enabled: own.enabled && compresses(policy.mode),
    pid: process.pid,
    resource: context.telemetry.resource,
    pager: {
      pid: info.pid,
      device: info.device,
      frontEnd: info.frontEnd,
      frontEndReason: info.frontEndReason,
      tier: info.tier,
      ...tierUse(info.tier, info.device),
      poolBytes: pager.poolBytes,
      store: pager.store,
      baseBytes: pager.baseBytes,
      usedSlots: pager.usedSlots,
      foreignSlots: pager.foreignSlots,
      encodings: pager.encodings,
      reads: pager.reads,
      writes: pager.writes,
      discards: pager.discards,
      freedSlots: pager.freedSlots,
      refusedWrites: pager.refusedWrites,
      corruptPages: pager.corruptPages,
      takeovers: pager.takeovers,
      standbyPid: pager.standbyPid,
    },
    memory: { ...hostPressure.status(), warnings: [...hostPressure.warnings] },
    policy: policyStatus(policies.live),
    dryRun: policies.dryRun,
    alerts: [
      ...policyAlerts(policies.live, own.tierFailure),
      ...alertsOf(pager, templateStatuses),
      ...predictor.models.alerts,
    ],
    probes: own.probes,
    hosts: own.hosts,
    sandboxes: registry.all().map((sandbox) => sandboxStatus(sandbox, pager)),
    templates: templateStatuses,
    templateWarnings: templates.captured.warnings,
    captures: [...templates.captures],
  };
}
