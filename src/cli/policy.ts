import { Command } from 'commander';
import { checkPolicy, policyExample, writePolicy } from '../plugin/policy-check.js';
import { explainSandbox, explanationText } from '../plugin/policy-explain.js';
import { runtimeDirOption } from './options.js';
import { print, printJson } from './output.js';

/** `agentzip policy init [FILE]`, `policy check FILE`, `policy explain SANDBOX`. */
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
  const init = new Command('init')
    .description('write a policy file with every key, its default and what it means')
    .argument('[file]', 'policy file; standard output without one')
    .action((file?: string) => {
      if (file === undefined) return print(policyExample());
      writePolicy(file);
      print(`agentzip: ${file} is written`);
    });
  const explain = new Command('explain')
    .description('say why a sandbox of the running service is treated as it is')
    .argument('<sandbox>', 'id of the sandbox')
    .addOption(runtimeDirOption())
    .option('--json', 'print the explanation as JSON')
    .action(async (sandbox: string, { runtimeDir, json }: { runtimeDir: string; json?: boolean }) => {
      const explanation = await explainSandbox(runtimeDir, sandbox);
      if (json) printJson(explanation);
      else print(explanationText(explanation));
    });
  return new Command('policy')
    .description('work with policies')
    .addCommand(init)
    .addCommand(check)
    .addCommand(explain);
}
