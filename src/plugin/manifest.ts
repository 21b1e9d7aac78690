import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { AgentZipError } from '../errors.js';
import { packageRoot } from '../paths.js';

const SCHEMA = `${packageRoot}/src/plugin/manifest.schema.json`;
export const MANIFEST = join(packageRoot, 'plugin-manifest.json');

interface Named {
  name: string;
}

/** What a host platform reads before it runs the plugin; the schema describes every key. */
export interface Manifest extends Named {
  id: string;
  version: string;
  description: string;
  engines: { node: string; linux: string };
  platform: { os: string[]; cpu: string[] };
  detect: { needs: { path: string }[]; wants: { path: string }[] };
  hosts: (Named & { mode: string; finds: string; hazards: string[] })[];
  actuators: (Named & { does: string })[];
  hazards: (Named & { means: string; treatment: string })[];
  capabilities: { required: string[]; optional: string[] };
  sockets: { path: string; for: string; access: string }[];
  hooks: { on: string; call: string; required: boolean }[];
  changes: { what: string; where: string; undoneBy: string; undo?: string; sources: string[] }[];
  privacy: {
    reads: { what: string; payload: boolean }[];
    stores: { what: string; where: string; mode: string; until: string; sources: string[] }[];
    sends: { what: string; where: string }[];
  };
}

/** A manifest that is valid. Errors: AZ_MANIFEST, with the key that is wrong. */
export function readManifest(file = MANIFEST): Manifest {
  const refuse = (reason: string, cause?: unknown): AgentZipError =>
    new AgentZipError('AZ_MANIFEST', { file, reason }, { cause });
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw refuse((error as Error).message, error);
  }
  const validate = new Ajv({ strict: true }).compile<Manifest>(JSON.parse(readFileSync(SCHEMA, 'utf8')));
  if (validate(value)) return value;
  const { instancePath, message, params, keyword } = (validate.errors ?? [])[0];
  const key = instancePath.slice(1).replaceAll('/', '.') || 'the manifest';
  const extra = keyword === 'additionalProperties' ? ` (${String(params.additionalProperty)})` : '';
  throw refuse(`${key} ${message}${extra}`);
}

const section = (title: string, rows: readonly string[][]): string[] => {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  const lines = rows.map((row) => row.map((cell, i) => cell.padEnd(widths[i])).join('  '));
  return ['', title, ...lines.map((line) => `  ${line.trimEnd()}`)];
};

/** A manifest for people. */
export function manifestText(manifest: Manifest): string {
  const { hosts, actuators, hazards, hooks, changes, privacy, sockets, capabilities } = manifest;
  return [
    `${manifest.id} ${manifest.version}: ${manifest.description}`,
    `needs Node ${manifest.engines.node}, Linux ${manifest.engines.linux}, ${manifest.platform.cpu.join(' or ')}; ${capabilities.required.join(', ')}`,
    ...section(
      'Applies where these exist',
      manifest.detect.needs.map(({ path }) => [path]),
    ),
    ...section(
      'Finds sandboxes of',
      hosts.map(({ name, mode, finds, hazards: bounds }) => [name, mode, finds, bounds.join(', ')]),
    ),
    ...section(
      'Acts by',
      actuators.map(({ name, does }) => [name, does]),
    ),
    ...section(
      'Hands off, or careful',
      hazards.map(({ name, treatment }) => [name, treatment]),
    ),
    ...section(
      'Is told',
      hooks.map(({ on, call, required }) => [on, call, required ? 'required' : 'optional']),
    ),
    ...section(
      'Changes on the host, undone by',
      changes.map(({ undoneBy, what, undo = '' }) => [undoneBy, what, undo]),
    ),
    ...section(
      'Keeps',
      privacy.stores.map(({ what, where, mode, until }) => [what, where, mode, `until ${until}`]),
    ),
    ...section(
      'Sends',
      privacy.sends.map(({ what, where }) => [what, where]),
    ),
    ...section(
      'Listens at',
      sockets.map(({ path, access }) => [path, access]),
    ),
    '',
  ].join('\n');
}
