import { UseTable } from './use-table.js';

/**
 * What is known of the pages of one process before a tool phase. Columns have one entry a page, in address order.
 */
export interface Scene {
  count: number;
  /** Names the page in every sandbox of the template. */
  places: Uint32Array;
  /** 1: the template has the page. */
  inTemplate: Uint8Array;
  /** Whether the last phases used it: see src/controller/prefetch/usage.ts. */
  histories: Uint32Array;
  /** How many of the pages around it the last phase used. */
  neighbours: Uint8Array;
  /** Which of the sandbox's processes it is, the tool that runs next and the one that ran last, as hashes. */
  role: number;
  tool: number;
  previous: number;
  /** Which of the last phases ran the tool: bit 0 is the last one. */
  toolPhases: number;
}

/** Phases that a history tells of, and bits of the number of phases that the page has been seen in. */
export const HISTORY_PHASES = 16;
const AGE_SHIFT = 16;
const MOST_AGE = 4;
const OLDEST = 255;

/** In which of the last 16 phases a page was used: the last one is bit 0. */
export const usesOf = (history: number): number => history & 0xffff;

/** History of a page after one more phase. */
export const nextHistory = (history: number, used: boolean): number =>
  (Math.min((history >>> AGE_SHIFT) + 1, OLDEST) << AGE_SHIFT) | ((history << 1) & 0xffff) | (used ? 1 : 0);

/** Pages of a cluster: they were made together and are mostly used together. */
const CLUSTER_BITS = 4;
/** Chances beyond these count no more: what never failed may fail. */
const LEAST = 0.01;

const KINDS = { own: 1, ownTool: 2, around: 3, place: 4, tool: 5, pair: 6, cluster: 7 } as const;
const INPUTS = Object.keys(KINDS).length + 1;
const BIAS = INPUTS - 1;
const BIAS_INPUT = 0.3;
/** Sets of weights: whether the template has the page, and for how many phases the page has been seen. */
const SETS = 2 * (MOST_AGE + 1);
const FIRST_WEIGHT = 0.3;
const RATE = 0.15;
/** Pages that count as much as one step of the weights. */
const STEADY = 100;

const mix = (hash: number, value: number): number => {
  let h = Math.imul(hash ^ value, 0x9e3779b1);
  h ^= h >>> 15;
  h = Math.imul(h, 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
};

/** 32-bit hash of a name. */
export function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return mix(hash, name.length);
}

const stretch = (chance: number): number => Math.log(chance / (1 - chance));
const squash = (x: number): number => 1 / (1 + Math.exp(-x));

/** Use in the last two phases that ran the tool and in which the page was seen: bits below a 1 that counts them. */
function toolOutcome(history: number, toolPhases: number): number {
  const age = history >>> AGE_SHIFT;
  let outcome = 1;
  for (let phase = 0, left = 2; phase < Math.min(age, HISTORY_PHASES) && left > 0; phase++) {
    if ((toolPhases & (1 << phase)) === 0) continue;
    outcome = (outcome << 1) | ((history >>> phase) & 1);
    left--;
  }
  return outcome;
}

/**
 * Predicts which pages a tool phase uses: the chances of use in several contexts (the page's own past, its past with this
 * tool, the pages around it, its place in the template with any tool, with this one, after the one before) are mixed with
 * weights that are learnt too. The scheme is that of context mixing in data compression (M. Mahoney, PAQ6).
 */
export class PrefetchModel {
  private readonly contexts = new Uint32Array(INPUTS - 1);
  private readonly inputs = new Float64Array(INPUTS);

  constructor(
    readonly table = new UseTable(),
    readonly weights = new Float32Array(SETS * INPUTS).fill(FIRST_WEIGHT),
  ) {}

  /** Chance of use of each page. */
  predict(scene: Scene): Float32Array {
    const chances = new Float32Array(scene.count);
    for (let i = 0; i < scene.count; i++) chances[i] = this.chance(scene, i);
    return chances;
  }

  /**
   * Learns from a phase that is over. `used` says of each page whether it was used, `weight` how many pages it stands for:
   * 0 when it is not known.
   */
  learn(scene: Scene, used: Uint8Array, weight: Float32Array): void {
    this.learnWeights(scene, used, weight);
    // Only now: the weights must not be judged by contexts that know how this phase went.
    this.table.nextPhase();
    for (let i = 0; i < scene.count; i++) {
      if (weight[i] === 0) continue;
      this.look(scene, i);
      for (const context of this.contexts) this.table.add(context, used[i] !== 0, weight[i]);
    }
  }

  private learnWeights(scene: Scene, used: Uint8Array, weight: Float32Array): void {
    const slopes = new Float64Array(SETS * INPUTS);
    const seen = new Float64Array(SETS);
    for (let i = 0; i < scene.count; i++) {
      if (weight[i] === 0) continue;
      const error = used[i] - this.chance(scene, i);
      const set = setOf(scene, i);
      for (let input = 0; input < INPUTS; input++)
        slopes[set * INPUTS + input] += weight[i] * error * this.inputs[input];
      seen[set] += weight[i];
    }
    for (let at = 0; at < slopes.length; at++) {
      this.weights[at] += (RATE * slopes[at]) / (seen[Math.floor(at / INPUTS)] + STEADY);
    }
  }

  private chance(scene: Scene, i: number): number {
    this.look(scene, i);
    const { table, contexts, inputs, weights } = this;
    const set = setOf(scene, i) * INPUTS;
    let sum = weights[set + BIAS] * (inputs[BIAS] = BIAS_INPUT);
    for (let input = 0; input < contexts.length; input++) {
      const at = table.find(contexts[input]);
      let value = 0;
      if (at >= 0) {
        const weight = table.weight(at);
        const chance = Math.min(1 - LEAST, Math.max(LEAST, table.chance(at)));
        value = (stretch(chance) * weight) / (weight + 1);
      }
      inputs[input] = value;
      sum += weights[set + input] * value;
    }
    return squash(sum);
  }

  /** Sets the contexts of a page. */
  private look(
    { places, inTemplate, histories, neighbours, role, tool, previous, toolPhases }: Scene,
    i: number,
  ): void {
    const { contexts } = this;
    const history = histories[i];
    const age = Math.min(history >>> AGE_SHIFT, MOST_AGE);
    const recent = (history & 3) | (age << 2) | (inTemplate[i] << 5);
    const place = mix(role, places[i]);
    contexts[0] = mix(mix(role, KINDS.own), recent | ((history & 15) << 6));
    contexts[1] = mix(mix(role, KINDS.ownTool), recent | (toolOutcome(history, toolPhases) << 6));
    contexts[2] = mix(mix(mix(role, KINDS.around), recent | ((neighbours[i] >> 1) << 6)), tool);
    contexts[3] = mix(place, KINDS.place);
    contexts[4] = mix(mix(place, KINDS.tool), tool);
    contexts[5] = mix(mix(mix(place, KINDS.pair), tool), previous);
    contexts[6] = mix(mix(mix(role, KINDS.cluster), places[i] >>> CLUSTER_BITS), tool);
  }
}

const setOf = ({ inTemplate, histories }: Scene, i: number): number =>
  inTemplate[i] + 2 * Math.min(histories[i] >>> AGE_SHIFT, MOST_AGE);
