import { Command } from 'commander';
import { captureTemplate, dropTemplate, listTemplates, templateTable } from '../plugin/templates.js';
import { progressText } from '../plugin/progress.js';
import { runtimeDirOption, whole } from './options.js';
import { print, printJson } from './output.js';
import { withProgress } from './progress.js';

/** Largest pid the kernel gives (PID_MAX_LIMIT). */
const MAX_PID = 4_194_304;

interface Flags {
  runtimeDir: string;
  json?: boolean;
}

interface CaptureFlags extends Flags {
  id: string;
  tenant?: string;
  public?: boolean;
}

const pages = (count: number): string => `${count.toLocaleString('en')} pages`;

const command = (name: string, description: string): Command =>
  new Command(name).description(description).addOption(runtimeDirOption()).option('--json', 'print JSON');

const list = (): Command =>
  command('list', 'show the templates of the running service').action(async ({ runtimeDir, json }: Flags) => {
    const templates = await listTemplates(runtimeDir);
    if (json) printJson(templates);
    else print(templateTable(templates));
  });

const capture = (): Command =>
  command('capture', 'capture the memory of a running, warmed-up process as a template')
    .argument('<pid>', 'the process', whole('template capture', 'PID', 1, MAX_PID))
    .requiredOption('--id <id>', 'id of the template')
    .option('--tenant <id>', 'owner: only its sandboxes may use it')
    .option('--public', 'usable by every tenant; only for memory that holds nothing secret')
    .action(async (pid: number, { runtimeDir, json, id, tenant, public: open }: CaptureFlags) => {
      const spec = { pid, tenant, public: open };
      const status = await withProgress(
        `capturing ${id} from process ${pid}`,
        (report) =>
          captureTemplate(runtimeDir, id, spec, (progress) => report(progressText(progress, pages))),
        json,
      );
      if (json) printJson(status);
      else
        print(
          `template ${id}: ${pages(status.pages)}, ${status.distinctPages.toLocaleString('en')} distinct`,
        );
    });

const drop = (): Command =>
  command('drop', 'forget a template that no sandbox uses, and delete what was captured for it')
    .argument('<id>', 'id of the template')
    .action(async (id: string, { runtimeDir, json }: Flags) => {
      await dropTemplate(runtimeDir, id);
      if (json) printJson({ dropped: id });
      else print(`template ${id}: dropped`);
    });

/** `agentzip template`: the memory that sandboxes of one origin share. */
export function templateCommand(): Command {
  return new Command('template')
    .description('list, capture and drop templates')
    .addCommand(list())
    .addCommand(capture())
    .addCommand(drop());
}
