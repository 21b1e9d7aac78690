import { Command } from 'commander';
import { readStatus, statusTable } from '../plugin/status.js';
import { runtimeDirOption } from './options.js';
import { print, printJson } from './output.js';

/** `agentzip status`: what the service does and how well. */
export function statusCommand(): Command {
  return new Command('status')
    .description('show sandboxes, memory and state of the running service')
    .addOption(runtimeDirOption())
    .option('--json', 'print the status as JSON')
    .action(async ({ runtimeDir, json }: { runtimeDir: string; json?: boolean }) => {
      const status = await readStatus(runtimeDir);
      if (json) printJson(status);
      else print(statusTable(status));
    });
}
