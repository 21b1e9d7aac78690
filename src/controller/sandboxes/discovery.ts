import { AgentZipError, explain } from '../../errors.js';
import type { FoundSandbox, HostAdapter, HostListener } from '../../hosts/adapter.js';
import type { Adopted } from './adoption.js';
import type { HostStatus } from '../api.js';

/** A platform that does not answer for so long is warned of; it is not asked again before it answers. */
const ANSWER_MS = 10_000;
/** Changes within this time of a look are taken in together. */
const GATHER_MS = 50;
/** How long the service waits at its start for what is there already. */
const START_MS = 2000;

export interface DiscoveryActions {
  settle(host: string, found: readonly FoundSandbox[]): Adopted;
  dropEnded(host: string): void;
  tool(host: string, ...what: Parameters<HostListener['tool']>): void;
  frozen(host: string, id: string, on: boolean): void;
}

/** How following is ended; null: it has only begun. */
interface Following {
  end: (() => void) | null;
}

/** One platform: looks at it at intervals, and when it tells of a change. Its failures are its own. */
class Follower {
  private timer: NodeJS.Timeout | null = null;
  private timerAt = Infinity;
  private looking = false;
  private again = false;
  private closed = false;
  private following: Following | null = null;
  private adopted: Adopted = { sandboxes: 0, claimed: 0, warnings: [] };
  private failure: string | null = null;
  private followFailure: string | null = null;

  constructor(
    private readonly adapter: HostAdapter,
    private readonly intervalMs: number,
    private readonly actions: DiscoveryActions,
  ) {}

  async look(): Promise<void> {
    if (this.looking) {
      this.again = true;
      return;
    }
    this.looking = true;
    this.again = false;
    const late = setTimeout(() => this.fail(tooLate(this.adapter.name)), ANSWER_MS);
    try {
      const found = await this.adapter.find();
      if (this.closed) return;
      this.adopted = this.actions.settle(this.adapter.name, found);
      this.failure = null;
      this.follow();
    } catch (error) {
      if (!this.closed) this.fail(error);
    } finally {
      clearTimeout(late);
      this.looking = false;
      this.schedule(this.again ? GATHER_MS : this.intervalMs);
    }
  }

  changed(): void {
    if (this.looking) this.again = true;
    else this.schedule(GATHER_MS);
  }

  get status(): HostStatus {
    const { name } = this.adapter;
    const failures = [this.failure, this.followFailure].filter((text) => text !== null);
    const warnings = [...new Set([...failures, ...this.adopted.warnings])];
    return { name, ...this.adopted, following: this.following !== null, warnings };
  }

  close(): void {
    this.closed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    if (this.following !== null) this.unfollow(this.following);
  }

  private fail(error: unknown): void {
    this.failure = explain(error);
    this.actions.dropEnded(this.adapter.name);
  }

  private follow(): void {
    if (this.following !== null || this.adapter.follow === undefined) return;
    const following: Following = { end: null };
    this.following = following;
    this.followFailure = null;
    try {
      const end = this.adapter.follow(this.listener(following));
      if (this.following === following) following.end = end;
      else end();
    } catch (error) {
      this.unfollow(following, error);
    }
  }

  /** Deaf once it is not followed any more. */
  private listener(following: Following): HostListener {
    const { name } = this.adapter;
    const live = (): boolean => this.following === following;
    return {
      changed: () => live() && this.changed(),
      tool: (...what) => live() && this.actions.tool(name, ...what),
      frozen: (id, on) => live() && this.actions.frozen(name, id, on),
      // Followed again as soon as it has been looked at again.
      failed: (error) => live() && this.unfollow(following, error),
    };
  }

  private unfollow({ end }: Following, error?: unknown): void {
    this.following = null;
    if (error !== undefined) this.followFailure = explain(error);
    try {
      end?.();
    } catch (failure) {
      this.followFailure = explain(failure);
    }
  }

  private schedule(inMs: number): void {
    const at = Date.now() + inMs;
    if (this.closed || this.looking || at >= this.timerAt) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.timerAt = Infinity;
      void this.look();
    }, inMs);
    this.timer.unref();
  }
}

const tooLate = (name: string): AgentZipError =>
  new AgentZipError('AZ_TIMEOUT', {
    what: `finding the sandboxes of ${name}`,
    seconds: ANSWER_MS / 1000,
    remedy: 'see whether that platform answers; its sandboxes stay as they are meanwhile',
  });

/** Finds sandboxes by themselves, on every platform that is enabled. */
export class Discovery {
  private readonly followers = new Map<string, Follower>();

  constructor(adapters: readonly HostAdapter[], intervalMs: number, actions: DiscoveryActions) {
    for (const adapter of adapters)
      this.followers.set(adapter.name, new Follower(adapter, intervalMs, actions));
  }

  /** Begins; resolves when each platform has been looked at once, or does not answer in time. */
  async start(): Promise<void> {
    const looks = Promise.all([...this.followers.values()].map((follower) => follower.look()));
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise<void>((resolve) => (timer = setTimeout(resolve, START_MS)));
    await Promise.race([looks, enough]);
    clearTimeout(timer);
  }

  changed(host: string): void {
    this.followers.get(host)?.changed();
  }

  get statuses(): HostStatus[] {
    return [...this.followers.values()].map(({ status }) => status);
  }

  close(): void {
    for (const follower of this.followers.values()) follower.close();
  }
}
