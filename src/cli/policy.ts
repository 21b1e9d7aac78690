import { Command } from 'commander';
import { checkPolicy } from '../plugin/policy-check.js';
import { print, printJson } from './output.js';

/** `agentzip policy check FILE`. */
export function policyCommand(): Command {
  const check = new Command('check')
    .description('check a policy file; errors name line, key and what is allowed')
    .argument('<file>', 'policy file (YAML or JSON)')
    .option('--json', 'print the policy with its defaults filled in, header values masked')
    .action((file: string, { json }: { json?: boolean }) => {
      const policy = checkPolicy(file);
      if (json) printJson(policy);
      else print(`agentzip: ${file} is valid`);
    });
  return new Command('policy').description('work with policy files').addCommand(check);
}
