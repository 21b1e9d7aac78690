import { Command } from 'commander';
import { runDemo } from '../bench/demo.js';
import { interruptible } from '../bench/interrupt.js';
import { AgentZipError } from '../errors.js';

/** A parser of whole numbers in [from, to]; AZ_USAGE for anything else. */
const whole =
  (option: string, from: number, to: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < from || value > to) {
      throw new AgentZipError('AZ_USAGE', {
        what: `${option} is ${text || 'empty'}, but must be a whole number from ${from} to ${to}`,
        command: 'demo',
      });
    }
    return value;
  };

interface DemoFlags {
  sandboxes: number;
  turns: number;
  seed: number;
  runs: number;
  json?: string;
  spans?: string;
}

/** `agentzip demo`: the same fan-out without and with AgentZip, and what the difference is. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run a fan-out of real sandboxes without and with AgentZip, and report the difference')
    .option('--sandboxes <n>', 'sandboxes forked from one template', whole('--sandboxes', 1, 64), 8)
    .option('--turns <n>', 'turns of each agent', whole('--turns', 1, 50), 6)
    .option('--seed <n>', 'seed of tasks, data and waits', whole('--seed', 0, 2 ** 32 - 1), 1)
    .option('--runs <n>', 'runs of each system, interleaved', whole('--runs', 1, 20), 1)
    .option('--json <file>', 'write the results to a file (schema agentzip.bench/1)')
    .option('--spans <file>', "write AgentZip's spans to a file (OTLP JSON, one span a line)")
    .action(async (flags: DemoFlags) => {
      const screen = process.stdout;
      await interruptible(screen, (signal) => runDemo({ ...flags, screen, signal }));
    });
}
