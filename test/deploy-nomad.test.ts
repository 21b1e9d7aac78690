import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { parsePolicy } from '../src/policy/load.js';

/** HashiCorp's own HCL parser, compiled to JavaScript. Nomad itself can not be had here: its keys are listed below. */
const hcl = createRequire(import.meta.url)('hcl2-parser') as {
  parseToObject(text: string): [Record<string, unknown> | null, { message?: string } | null];
};

type Block = Record<string, unknown>;
/** Keys of each block, from Nomad's job specification (1.8); those that AgentZip uses. Blocks with a label: one name deep. */
const KEYS: Record<string, readonly string[]> = {
  job: ['type', 'datacenters', 'node_pool', 'priority', 'constraint', 'update', 'group'],
  constraint: ['attribute', 'value', 'operator'],
  update: ['max_parallel', 'stagger', 'health_check', 'min_healthy_time'],
  group: ['restart', 'task', 'constraint', 'network', 'service'],
  restart: ['attempts', 'interval', 'delay', 'mode'],
  task: ['driver', 'user', 'kill_signal', 'kill_timeout', 'config', 'template', 'resources', 'env', 'leader'],
  config: ['command', 'args', 'cgroup_v1_override', 'cgroup_v2_override', 'oom_score_adj'],
  template: ['destination', 'data', 'change_mode', 'change_signal', 'perms'],
  resources: ['cpu', 'cores', 'memory', 'memory_max'],
};
const LABELLED = ['job', 'group', 'task'];

function parse(text: string): Block {
  const [value, error] = hcl.parseToObject(text);
  if (value === null || error !== null) throw new Error(`no HCL: ${JSON.stringify(error)}`);
  return value;
}

/** Every block of a name below `parent`, with its label. */
function blocks(parent: Block, name: string): Block[] {
  const value = parent[name];
  if (value === undefined) return [];
  if (!LABELLED.includes(name)) return value as Block[];
  return Object.values(value as Record<string, Block[]>).flat();
}

/** Paths of keys that Nomad does not know. */
function unknownKeys(block: Block, name: string): string[] {
  return Object.keys(block).flatMap((key) => {
    if (!KEYS[name].includes(key)) return [`${name}.${key}`];
    return key in KEYS ? blocks(block, key).flatMap((inner) => unknownKeys(inner, key)) : [];
  });
}

describe('the Nomad job', () => {
  const text = readFileSync(`${packageRoot}/deploy/nomad/agentzip.nomad.hcl`, 'utf8');
  const [job] = blocks(parse(text), 'job');
  const [group] = blocks(job, 'group');
  const [task] = blocks(group, 'task');

  it('is HCL, with keys that Nomad knows', () => {
    expect(unknownKeys(job, 'job')).toEqual([]);
    const wrong = blocks(parse(text.replace('kill_timeout =', 'kill_time =')), 'job')[0];
    expect(unknownKeys(wrong, 'job')).toEqual(['task.kill_time']);
    expect(() => parse(text.replace(/}\s*$/, ''))).toThrow();
  });

  it('runs the command on every client, and gives a drain its time', () => {
    expect(job).toMatchObject({ type: 'system', datacenters: ['*'] });
    expect(task).toMatchObject({ driver: 'raw_exec', kill_signal: 'SIGTERM', kill_timeout: '30m' });
    const [config] = blocks(task, 'config');
    expect(config).toMatchObject({ args: ['run', '--policy', '${NOMAD_TASK_DIR}/agentzip.yaml'] });
    expect(blocks(group, 'restart')).toMatchObject([{ mode: 'delay' }]);
  });

  it('brings a policy that is valid, to the place where the command looks for it', () => {
    const [template] = blocks(task, 'template');
    expect(template).toMatchObject({ destination: 'local/agentzip.yaml', change_mode: 'noop' });
    const policy = parsePolicy(template.data as string);
    expect(policy.hosts.e2b.enabled).toBe(true);
    expect(policy.otel.endpoint).toBe('http://127.0.0.1:4318');
  });
});
