import type { Hazard } from './adapter.js';

/** A runtime whose containers are no processes of this host: their memory is not theirs to take by the page. */
export interface VirtualRuntime {
  why: string;
  hazards: readonly Hazard[];
}

const VIRTUAL: readonly [RegExp, VirtualRuntime][] = [
  [
    /runsc|gvisor/,
    { why: 'its runtime is gVisor: sandbox and sentry share its memory', hazards: ['shared_memfd'] },
  ],
  [/kata/, { why: 'its runtime is Kata: its memory is that of a virtual machine', hazards: [] }],
];

/** Null: containers of that runtime are processes of this host. */
export const virtualRuntime = (name: string): VirtualRuntime | null =>
  VIRTUAL.find(([pattern]) => pattern.test(name))?.[1] ?? null;
