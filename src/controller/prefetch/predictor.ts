import { commandName } from '../../memory/process.js';
import { PAGE } from '../../native/libc.js';
import { Forecast } from '../windows/forecast.js';
import type { Member } from '../sandboxes/member.js';
import type { Learnt, Models } from './models.js';
import type { Policies } from '../policies.js';
import { placeBets, type Bet } from './prefetch.js';
import { hashOf } from './prefetch-model.js';
import { noCounts, type PhaseCounts } from './prefetch-score.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import type { Templates } from '../templates/templates.js';

const MIB = 1 << 20;
/** A fault shows that what lies so many pages around it is wanted too, where the chance was at least so high before. */
const AHEAD_PAGES = 32;
const AHEAD_CHANCE = 0.25;
/** Where less than this part of what was made ready ahead is used, it is given up for a while. */
const AHEAD_ACCURACY = 0.4;

/** Expects, bets and learns: what the pages of sandboxes are wanted for in their tool phases. */
export class Predictor {
  constructor(
    readonly models: Models,
    private readonly templates: Templates,
    private readonly policies: Pick<Policies, 'of'>,
    private readonly swapType: () => number,
  ) {}

  /** Looks at the processes of a sandbox whose tool phase is near: what takes time and depends on no tool. */
  prepare(sandbox: Sandbox): void {
    const map = this.templates.baseFor(sandbox)?.addresses;
    for (const member of sandbox.members.values()) {
      const look = member.lookBack(this.swapType());
      const out = look !== null && look.swappedPages > 0;
      member.forecast = out ? Forecast.of(look, map?.mapper(look.vmas) ?? null, member.usage) : null;
    }
  }

  /** Chooses what to put back in a sandbox that is prepared. */
  foresee(sandbox: Sandbox): Bet<Member>[] {
    const learnt = this.models.of(sandbox);
    const { minUse, maxWaste, maxMiB } = this.policies.of(sandbox).prefetch;
    sandbox.prefetchRoom = (maxMiB * MIB) / PAGE;
    const { tools } = sandbox;
    const tool = hashOf(tools.next);
    const previous = hashOf(tools.previous);
    const toolPhases = tools.phasesOf(tools.next);
    const roles = rolesOf(sandbox);
    const processes = [...sandbox.members.values()].map((member) => {
      member.forecast?.settle({ role: roles.get(member) ?? 0, tool, previous, toolPhases }, learnt.model);
      const step = (page: number): number => member.usage.step(page);
      return { process: member, candidates: member.forecast?.candidates(minUse) ?? [], step };
    });
    const { optimism } = learnt.score;
    return placeBets(processes, { minUse, maxWaste, maxPages: sandbox.prefetchRoom, optimism });
  }

  /** What to make ready now that the tool has waited for a page. */
  follow(sandbox: Sandbox, member: Member, page: number): number[] {
    if (!member.forecast?.settled || this.models.of(sandbox).score.aheadAccuracy < AHEAD_ACCURACY) return [];
    return member.forecast
      .near(page, AHEAD_PAGES, AHEAD_CHANCE)
      .filter((near) => member.isOut(near) && member.usage.mark(near) === 0);
  }

  /** Learns from a tool phase that is over. Returns how it went. */
  conclude(sandbox: Sandbox): PhaseCounts {
    const total = noCounts();
    const members = [...sandbox.members.values()];
    const learnt = members.some(({ forecast }) => forecast?.settled) ? this.models.of(sandbox) : null;
    for (const member of members) add(total, this.concludeOne(member, learnt));
    sandbox.count(total);
    sandbox.tools.endPhase();
    if (learnt !== null) {
      learnt.score.note(total);
      learnt.unsaved++;
    }
    return total;
  }

  private concludeOne(member: Member, learnt: Learnt | null): PhaseCounts {
    const { forecast, usage } = member;
    member.forecast = null;
    const after = member.lookAfter(this.swapType());
    if (after === null) return noCounts();
    const { out, outcome } = after;
    if (forecast?.settled && learnt !== null) {
      for (const page of forecast.pages)
        if (usage.isReady(page) && outcome(page) === 'out') member.noteCached(page);
      return forecast.learn(learnt.model, usage, outcome);
    }
    const counts = noCounts();
    const used = out.map((page) => usage.verdict(page, outcome(page)) === true);
    counts.demand = used.filter(Boolean).length;
    counts.news = out.filter((page, i) => used[i] && !usage.isUsed(page)).length;
    usage.endPhase(out, (_, i) => used[i]);
    return counts;
  }
}

/** Tells a sandbox's processes apart as those of its siblings: by command, and the order of their start. */
function rolesOf(sandbox: Sandbox): Map<Member, number> {
  const members = [...sandbox.members.values()].sort((a, b) => a.process.startTime - b.process.startTime);
  const seen = new Map<string, number>();
  return new Map(
    members.map((member) => {
      const command = commandName(member.pid);
      const ordinal = seen.get(command) ?? 0;
      seen.set(command, ordinal + 1);
      return [member, hashOf(`${command}#${ordinal}`)];
    }),
  );
}

function add(total: PhaseCounts, counts: PhaseCounts): void {
  for (const key of Object.keys(total) as (keyof PhaseCounts)[]) total[key] += counts[key];
}
