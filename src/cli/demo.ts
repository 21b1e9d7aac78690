import { Command, Option } from 'commander';
import { runDemo } from '../bench/demo.js';
import { interruptible } from '../bench/interrupt.js';
import { type TierName, TIERS } from '../bench/system.js';
import { whole } from './options.js';

interface DemoFlags {
  sandboxes: number;
  turns: number;
  seed: number;
  runs: number;
  tier: TierName;
  json?: string;
  spans?: string;
}

/** `agentzip demo`: the same fan-out without and with AgentZip, and what the difference is. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run a fan-out of real sandboxes without and with AgentZip, and report the difference')
    .option('--sandboxes <n>', 'sandboxes forked from one template', whole('demo', '--sandboxes', 1, 64), 8)
    .option('--turns <n>', 'turns of each agent', whole('demo', '--turns', 1, 50), 6)
    .option('--seed <n>', 'seed of tasks, data and waits', whole('demo', '--seed', 0, 2 ** 32 - 1), 1)
    .option('--runs <n>', 'runs of each system, interleaved', whole('demo', '--runs', 1, 20), 1)
    .addOption(
      new Option('--tier <tier>', 'what pages go to first; see pager.tier of the policy')
        .choices(Object.keys(TIERS))
        .default('direct'),
    )
    .option('--json <file>', 'write the results to a file (schema agentzip.bench/1)')
    .option('--spans <file>', "write AgentZip's spans to a file (OTLP JSON, one span a line)")
    .action(async ({ tier, ...flags }: DemoFlags) => {
      const systems = ['none', TIERS[tier]] as const;
      const screen = process.stdout;
      await interruptible(screen, (signal) => runDemo({ ...flags, systems, screen, signal }));
    });
}
