import { Command } from 'commander';
import { doctorTable, refuse, runDoctor } from '../plugin/doctor.js';
import { print, printJson } from './output.js';

/** `agentzip doctor`: can AgentZip run here? Exit code 1 when it can not. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('check what AgentZip needs of this host: found, needed, remedy')
    .option('--json', 'print the report as JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const report = await runDoctor();
      if (json) printJson(report);
      else print(doctorTable(report));
      refuse(report);
    });
}
