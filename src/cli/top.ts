import { Command } from 'commander';
import { runTop } from '../plugin/top/top.js';
import { decimal, runtimeDirOption } from './options.js';

interface Flags {
  runtimeDir: string;
  interval: number;
  once?: boolean;
  json?: boolean;
}

/** `agentzip top`: the service as it works. */
export function topCommand(): Command {
  return new Command('top')
    .description('watch sandboxes and memory live; ? lists the keys. Without a terminal: one look')
    .addOption(runtimeDirOption())
    .option('--interval <s>', 'seconds between two looks', decimal('top', '--interval', 0.1, 3600), 1)
    .option('--once', 'print one look and end')
    .option('--json', 'print a line of JSON each interval')
    .action(async ({ runtimeDir, interval, once, json }: Flags) => {
      const { stdin, stdout, env } = process;
      await runTop({ runtimeDir, intervalMs: interval * 1000, once, json }, { stdin, stdout, env });
    });
}
