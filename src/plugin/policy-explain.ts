import type { Decision, Explanation } from '../controller/api.js';
import { AgentZipClient } from './client.js';
import { checkedRuntimeDir, controlSocket } from './runtime-files.js';

/** Asks the service of a runtime directory. Errors: AZ_NOT_RUNNING, AZ_UNKNOWN_SANDBOX and others of the client. */
export async function explainSandbox(runtimeDir: string, sandbox: string): Promise<Explanation> {
  const client = new AgentZipClient(controlSocket(checkedRuntimeDir(runtimeDir)));
  try {
    return await client.explain(sandbox);
  } finally {
    client.close();
  }
}

const shown = (value: number | string | boolean | null): string => {
  if (value === null) return 'not known';
  return typeof value === 'number' && !Number.isInteger(value) ? value.toFixed(2) : String(value);
};

function lines({ what, value, because, numbers }: Decision): string[] {
  const list = Object.entries(numbers).map(([name, number]) => `${name} ${shown(number)}`);
  return [
    `${what.padEnd(13)} ${value ?? 'none'}: ${because}`,
    ...(list.length > 0 ? [`  ${list.join(', ')}`] : []),
  ];
}

/** An explanation for people. */
export function explanationText({ id, decisions, overrides }: Explanation): string {
  const found = overrides.map(
    ({ at, match, set }) => `  ${at ?? 'no file'}: ${JSON.stringify(match)} sets ${JSON.stringify(set)}`,
  );
  return [
    `sandbox ${id}`,
    ...decisions.flatMap(lines),
    `overrides     ${found.length === 0 ? 'none match' : 'that match, the last counts'}`,
    ...found,
    '',
  ].join('\n');
}
