#!/usr/bin/env node
import { Command } from 'commander';
import { version } from '../paths.js';
import { benchCommand } from './bench.js';
import { demoCommand } from './demo.js';
import { doctorCommand } from './doctor.js';
import { drainCommand } from './drain.js';
import { manifestCommand } from './manifest.js';
import { exitCodeOf } from './output.js';
import { policyCommand } from './policy.js';
import { runCommand } from './run.js';
import { statusCommand } from './status.js';
import { templateCommand } from './template.js';
import { topCommand } from './top.js';

/** Makes a command and its subcommands throw instead of exiting, and leave the printing of errors to us. */
function quiet(command: Command): Command {
  command.exitOverride().configureOutput({ outputError: () => {} });
  command.commands.forEach(quiet);
  return command;
}

/** What to call with --help: the first words of the arguments that are commands. */
function commandName(program: Command, words: readonly string[]): string {
  const names: string[] = [];
  let command: Command | undefined = program;
  for (const word of words) {
    command = command.commands.find((candidate) => candidate.name() === word);
    if (!command) break;
    names.push(word);
  }
  return names.join(' ');
}

async function main(words: readonly string[]): Promise<number> {
  const program = new Command('agentzip')
    .description('compresses the memory of AI-agent sandboxes while they wait for their LLM')
    .version(version);
  for (const command of [
    runCommand(),
    demoCommand(),
    benchCommand(),
    statusCommand(),
    topCommand(),
    templateCommand(),
    doctorCommand(),
    policyCommand(),
    manifestCommand(),
    drainCommand(),
  ]) {
    program.addCommand(command);
  }
  quiet(program);
  try {
    await program.parseAsync(words, { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return exitCodeOf(error, commandName(program, words));
  }
}

// A reader that has seen enough (`agentzip status | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
process.exit(await main(process.argv.slice(2)));
