import { tellsPhases } from '../../telemetry/phase-watch.js';
import { Probes } from '../../telemetry/probes.js';
import type { Requirement } from './requirement.js';

/** What the kernel took. */
type Loaded = Pick<Probes, 'attached' | 'warnings'>;

/** Offers the probes to the kernel, as the service does, and takes them away at once. */
function load(): Loaded {
  const probes = Probes.load({ faults: false });
  probes.close();
  return probes;
}

/** Whether the kernel takes the probes that phases are found out by, and which it takes. */
export function probes({ attached, warnings }: Loaded = load()): Requirement {
  const ok = tellsPhases(attached);
  return {
    id: 'probes',
    level: 'optional',
    ok,
    found: [attached.join(', '), ...warnings].filter((text) => text !== '').join('; '),
    needed: 'tell what a sandbox does, where its host does not (detect.enabled)',
    remedy: 'see what is found; or have the host report when a sandbox waits',
  };
}
