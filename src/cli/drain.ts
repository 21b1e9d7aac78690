import { Command } from 'commander';
import { drainAgentZip } from '../plugin/drain.js';
import { progressText } from '../plugin/progress.js';
import { bytes } from '../plugin/watch/format.js';
import { runtimeDirOption } from './options.js';
import { print, printJson } from './output.js';
import { withProgress } from './progress.js';

/** `agentzip drain`: give everything back and end the service. */
export function drainCommand(): Command {
  return new Command('drain')
    .description(
      'page everything back in, remove the swap device and end the service (or its orphaned pager)',
    )
    .addOption(runtimeDirOption())
    .option('--json', 'print what was drained as JSON')
    .action(async ({ runtimeDir, json }: { runtimeDir: string; json?: boolean }) => {
      const drained = await withProgress(
        'draining',
        (report) => drainAgentZip(runtimeDir, (progress) => report(progressText(progress, bytes))),
        json,
      );
      if (json) printJson({ drained });
      else
        print(drained === 'service' ? 'agentzip: drained' : 'agentzip: drained the pager of a dead service');
    });
}
