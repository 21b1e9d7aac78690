import { Command, Option } from 'commander';
import { type BenchOptions, runBench } from '../bench/bench.js';
import { interruptible } from '../bench/interrupt.js';
import { SYSTEMS } from '../bench/systems/table.js';
import { WORKLOADS } from '../bench/workloads/table.js';
import { AgentZipError } from '../errors.js';
import { BENCH_MODES, type BenchMode } from './bench-modes.js';
import { decimal, whole } from './options.js';

const DEFAULT_FILES = '/var/cache/agentzip-bench';

const names = (text: string): string[] => text.split(',').map((name) => name.trim());

/** Workloads and systems with what each is, for --help. */
function lists(): string {
  const list = (title: string, rows: readonly (readonly [string, string])[]): string =>
    [`${title}:`, ...rows.map(([name, description]) => `  ${name.padEnd(24)} ${description}`)].join('\n');
  const workloads = WORKLOADS.map(
    ({ name, description, sandboxes, turns }) =>
      [name, `${description} (${sandboxes} sandboxes, ${turns} turns)`] as const,
  );
  const systems = Object.entries(SYSTEMS).map(([name, { description }]) => [name, description] as const);
  return `\n${list('Workloads', workloads)}\n\n${list('Systems', systems)}`;
}

const modeOption = ({ flags, description }: BenchMode): Option => new Option(flags, description);

/** `agentzip bench`: a workload under several systems, and how they compare. */
export function benchCommand(): Command {
  const command = new Command('bench')
    .description('run a workload of real sandboxes under several memory systems, and compare them')
    .option('--workload <name>', 'what the agents do', 'demo')
    .option('--systems <names>', 'systems to compare, with commas between; none always runs too', names, [
      'none',
      'agentzip',
    ])
    .option('--runs <n>', 'runs of each system, interleaved', whole('bench', '--runs', 1, 20), 3)
    .option('--sandboxes <n>', "default: the workload's", whole('bench', '--sandboxes', 1, 256))
    .option('--turns <n>', "turns of each agent; default: the workload's", whole('bench', '--turns', 1, 200))
    .option('--seed <n>', 'seed of tasks, data and waits', whole('bench', '--seed', 0, 2 ** 32 - 1), 1)
    .option('--time-scale <x>', 'multiplies every wait', decimal('bench', '--time-scale', 0.001, 10), 1)
    .option('--json <file>', 'write the results to a file (schema agentzip.bench/1)')
    .option('--report <file>', 'write the results to a file as a page (HTML)')
    .option('--spans <file>', "write AgentZip's spans to a file (OTLP JSON, one span a line)")
    .option('--files <dir>', 'folder for what workloads install; kept', DEFAULT_FILES);
  for (const mode of BENCH_MODES) {
    command.addOption(modeOption(mode));
    for (const option of mode.options ?? []) command.addOption(option);
  }
  return command.addHelpText('after', lists).action(async (given: BenchOptions & Record<string, unknown>) => {
    const screen = process.stdout;
    await interruptible(screen, (signal) =>
      act({ ...given, command: typed(process.argv.slice(2)), screen, signal }, given, command),
    );
  });
}

/** AZ_USAGE for an option that only a mode takes which was not chosen. */
function refuseStray(command: Command, chosen: BenchMode | undefined): void {
  for (const mode of BENCH_MODES.filter((other) => other !== chosen)) {
    const stray = mode.options?.find(
      (option) => command.getOptionValueSource(option.attributeName()) === 'cli',
    );
    if (stray === undefined) continue;
    const what = `${stray.long} goes with ${modeOption(mode).long} only`;
    throw new AgentZipError('AZ_USAGE', { what, command: 'bench' });
  }
}

async function act(flags: BenchOptions, given: Record<string, unknown>, command: Command): Promise<void> {
  const chosen = BENCH_MODES.filter((mode) => given[modeOption(mode).attributeName()] !== undefined);
  if (chosen.length > 1) {
    const what = `only one of ${chosen.map((mode) => modeOption(mode).long).join(', ')} at a time`;
    throw new AgentZipError('AZ_USAGE', { what, command: 'bench' });
  }
  const [mode] = chosen;
  refuseStray(command, mode);
  if (mode === undefined) await runBench(flags);
  else await mode.run(given[modeOption(mode).attributeName()] as string | true, flags);
}

/** A command line that a shell would read as these words. */
const typed = (words: readonly string[]): string =>
  ['agentzip', ...words.map((word) => (/^[\w./:,=@%+-]+$/.test(word) ? word : `'${word}'`))].join(' ');
