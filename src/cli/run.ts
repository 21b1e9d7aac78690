import { Command } from 'commander';
import { print, printError, warn } from './output.js';

interface RunFlags {
  policy?: string;
  runtimeDir?: string;
  stateDir?: string;
  hosts?: string[];
  dryRun?: boolean;
}

const names = (text: string): string[] => text.split(',').map((name) => name.trim());

/** `agentzip run`: the service, in the foreground, until it is drained. */
export function runCommand(): Command {
  return new Command('run')
    .description('run the service in the foreground; SIGTERM or Ctrl-C drains it')
    .option('--policy <file>', 'policy file (YAML or JSON); default: built-in policy')
    .option('--runtime-dir <dir>', 'folder of the sockets; default: paths.runtimeDir of the policy')
    .option('--state-dir <dir>', 'folder of the templates; default: paths.stateDir of the policy')
    .option(
      '--hosts <names>',
      'platforms whose sandboxes are found, with commas between; see docs/hosts.md',
      names,
    )
    .option('--dry-run', 'say what would be done, and do nothing: no pager, no swap device, no page-out')
    .action(async ({ policy, runtimeDir, stateDir, hosts, dryRun }: RunFlags) => {
      // Loaded here: the other commands need neither OpenTelemetry nor the native libraries.
      const { runService } = await import('../plugin/service.js');
      const options = { policyFile: policy, runtimeDir, stateDir, hosts, dryRun };
      await runService(options, { print, warn, printError });
    });
}
