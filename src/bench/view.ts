import type { Activity } from './agent.js';
import type { Sampler } from './sampler.js';

/** A sandbox as the live table shows it; bytes. */
export interface Row {
  id: string;
  turn: number;
  turns: number;
  phase: string;
  owned: number;
  stored: number;
  ratio: number | null;
}

/** What can be seen of a run from outside while it goes on. Costs the run nothing but a few assignments. */
export class RunView {
  readonly startedAt = Date.now();
  readonly notes: string[] = [];
  current = 'preparing';
  /** Runs of the session that are over, of all, and when it began. */
  session: { done: number; of: number; startedAt: number } | null = null;
  private readonly turnOf = new Map<string, { turn: number; phase: string }>();
  private sampler: Sampler | undefined;

  constructor(
    readonly title: string,
    /** Turns of each sandbox, by id. */
    private readonly turns: ReadonlyMap<string, number>,
  ) {}

  stage(name: string): void {
    this.current = name;
  }

  /** Something the user should read after the run. */
  note(text: string): void {
    this.notes.push(text);
  }

  attach(sampler: Sampler): void {
    this.sampler = sampler;
  }

  activity(id: string, turn: number, activity: Activity, tool?: string): void {
    this.turnOf.set(id, { turn, phase: tool ?? activity });
  }

  /** How much of the session is over, from 0 to 1; runs count alike, and turns within a run. */
  share(): number | null {
    if (this.session === null) return null;
    const all = [...this.turns.values()].reduce((sum, turns) => sum + turns, 0);
    const over = [...this.turnOf.values()].reduce(
      (sum, { turn, phase }) => sum + Math.max(0, phase === 'done' ? turn + 1 : turn),
      0,
    );
    return (this.session.done + (all > 0 ? Math.min(1, over / all) : 0)) / this.session.of;
  }

  rows(): Row[] {
    const accounts = new Map(this.sampler?.latest.status?.sandboxes.map((s) => [s.id, s]));
    return [...this.turns].map(([id, turns]) => {
      const { turn, phase } = this.turnOf.get(id) ?? { turn: -1, phase: 'starting' };
      const account = accounts.get(id);
      return {
        id,
        turn: turn + 1,
        turns,
        phase,
        owned: this.sampler?.memoryOf(id).owned ?? 0,
        stored: account?.storedBytes ?? 0,
        ratio: account?.ratio ?? null,
      };
    });
  }

  /** Bytes owned by all sandboxes, and of the system's pool, at the last look. */
  totals(): { owned: number; pool: number } {
    const owned = [...this.turns.keys()].reduce(
      (sum, id) => sum + (this.sampler?.memoryOf(id).owned ?? 0),
      0,
    );
    return { owned, pool: this.sampler?.latest.pool ?? 0 };
  }
}
