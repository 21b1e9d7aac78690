import { warn } from './output.js';

/** A terminal shows every change; elsewhere a line now and then says that it goes on. */
const LINE_MS = 5_000;

/** Tells how far a job is. */
export type Report = (text: string) => void;

/**
 * Does a job that may take long, and shows on standard error how far it is: in place on a terminal, by lines elsewhere,
 * not at all when `silent`.
 */
export async function withProgress<T>(
  title: string,
  job: (report: Report) => Promise<T>,
  silent = false,
): Promise<T> {
  if (silent) return job(() => {});
  if (!process.stderr.isTTY) return byLines(title, job);
  // Loaded here: most commands end before it would have been.
  const { Listr, ListrLogger, ProcessOutput } = await import('listr2');
  const logger = new ListrLogger({
    useIcons: true,
    processOutput: new ProcessOutput(process.stderr, process.stderr),
  });
  let result: { value: T } | undefined;
  const tasks = new Listr(
    {
      title,
      task: async (_context, task) => {
        result = { value: await job((text) => void (task.output = text)) };
      },
    },
    // Who called prints the error, with its remedy.
    { renderer: 'default', rendererOptions: { logger, showErrorMessage: false, formatOutput: 'truncate' } },
  );
  await tasks.run();
  return (result as { value: T }).value;
}

async function byLines<T>(title: string, job: (report: Report) => Promise<T>): Promise<T> {
  let last = performance.now();
  return job((text) => {
    const now = performance.now();
    if (now - last < LINE_MS) return;
    last = now;
    warn(`${title}: ${text}`);
  });
}
