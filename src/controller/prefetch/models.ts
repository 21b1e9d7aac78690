import { explain, AgentZipError } from '../../errors.js';
import type { Alert, PrefetchStatus } from '../api.js';
import type { ModelFiles } from './model-file.js';
import { PrefetchModel } from './prefetch-model.js';
import { PrefetchScore } from './prefetch-score.js';
import type { Sandbox } from '../sandboxes/sandbox.js';

/** What is known of a kind of sandboxes. */
export interface Learnt {
  readonly key: string;
  readonly template: string | null;
  readonly model: PrefetchModel;
  readonly score: PrefetchScore;
  /** Phases learnt since it was last written. */
  unsaved: number;
}

/** Models in memory: 1.5 MiB each. The one that was asked for longest ago goes to disk. */
const MOST_MODELS = 64;

/** Sandboxes learn together when they share a trust domain and a template. Both are in the key, so no others ever do. */
const keyOf = ({ domain, spec }: Pick<Sandbox, 'domain' | 'spec'>): string =>
  JSON.stringify([domain, spec.template ?? null]);

/** The prefetch models of all trust domains, on disk while nobody needs them. */
export class Models {
  /** The one asked for longest ago first. */
  private readonly byKey = new Map<string, Learnt>();
  private readonly failures = new Map<string, AgentZipError>();

  constructor(private readonly files: ModelFiles) {}

  of(sandbox: Pick<Sandbox, 'domain' | 'spec'>): Learnt {
    const key = keyOf(sandbox);
    const learnt = this.byKey.get(key) ?? this.load(key, sandbox.spec.template ?? null);
    this.byKey.delete(key);
    this.byKey.set(key, learnt);
    const [oldest] = this.byKey.values();
    if (this.byKey.size > MOST_MODELS) {
      this.save(oldest);
      this.byKey.delete(oldest.key);
    }
    return learnt;
  }

  /** Of all trust domains that use the template. */
  status(template: string): PrefetchStatus {
    const scores = [...this.byKey.values()].filter((learnt) => learnt.template === template);
    return PrefetchScore.status(scores.map(({ score }) => score));
  }

  /** Writes what has been learnt. */
  saveAll(): void {
    for (const learnt of this.byKey.values()) this.save(learnt);
  }

  /** Files that could not be used. */
  get alerts(): Alert[] {
    return [...this.failures.values()].map(({ code, message, remedy }) => ({ code, message, remedy }));
  }

  private load(key: string, template: string | null): Learnt {
    const model = this.attempt(() => this.files.load(key)) ?? new PrefetchModel();
    return { key, template, model, score: new PrefetchScore(), unsaved: 0 };
  }

  private save(learnt: Learnt): void {
    if (learnt.unsaved === 0) return;
    learnt.unsaved = 0;
    this.attempt(() => this.files.save(learnt.key, learnt.model));
  }

  /** What goes wrong on disk costs what was learnt, and nothing else. */
  private attempt<T>(action: () => T): T | null {
    try {
      return action();
    } catch (error) {
      if (!(error instanceof AgentZipError)) throw error;
      this.failures.set(explain(error), error);
      return null;
    }
  }
}
