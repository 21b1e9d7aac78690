import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
  type Resource,
} from '@opentelemetry/resources';
import { RESOURCE } from './names.js';

/** Who emits: attributes of the OpenTelemetry resource. */
export interface Emitter {
  version: string;
  /** Tells apart several AgentZips: see instanceId. */
  instance: string;
}

/** Of UUIDs of version 5 for `service.instance.id`, as OpenTelemetry's semantic conventions want it. */
const INSTANCE_NAMESPACE = '4d63009a-8d0f-11ee-aad7-4c796ed8e320';
const MACHINE_ID = '/etc/machine-id';
/** As `host.arch` names them. */
const ARCHITECTURES: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64' };

/**
 * What every span and metric says of its sender. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before it: who runs us in a
 * container knows the host's name better.
 */
export function resourceOf({ version, instance }: Emitter): Resource {
  const own = resourceFromAttributes({
    [RESOURCE.serviceName]: 'agentzip',
    [RESOURCE.serviceVersion]: version,
    [RESOURCE.serviceInstance]: instance,
    [RESOURCE.hostName]: hostname(),
    [RESOURCE.hostArch]: ARCHITECTURES[process.arch] ?? process.arch,
    [RESOURCE.osType]: 'linux',
    [RESOURCE.pid]: process.pid,
  });
  return defaultResource()
    .merge(own)
    .merge(detectResources({ detectors: [envDetector] }));
}

/**
 * An id for the AgentZip of a runtime directory, the same after a restart, no two alike in a fleet. The machine's id goes into it as
 * a hash alone: it is confidential (machine-id(5)).
 */
export function instanceId(runtimeDir: string, machineIdFile = MACHINE_ID): string {
  let machine: string;
  try {
    machine = readFileSync(machineIdFile, 'latin1').trim();
  } catch {
    machine = hostname(); // In a container that has none.
  }
  const hash = createHash('sha1').update(Buffer.from(INSTANCE_NAMESPACE.replaceAll('-', ''), 'hex'));
  const bytes = hash.update(`${machine || hostname()} ${runtimeDir}`).digest();
  bytes[6] = (bytes[6] & 0x0f) | 0x50; // version 5
  bytes[8] = (bytes[8] & 0x3f) | 0x80; // variant of RFC 9562
  const hex = bytes.toString('hex', 0, 16);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
