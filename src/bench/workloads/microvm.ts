import { packageRoot } from '../../paths.js';
import { prepareGuests } from '../microvm/image.js';
import type { Workload } from '../workload.js';
import { planCoding } from './coding.js';
import { type Project, PROJECTS, taskFile } from './projects/project.js';
import { prepareProjects, projectRoot } from './projects/source.js';

const PROGRAM = `${packageRoot}/dist/bench/microvm/main.js`;
/** Sends SIGKILL to the program when the bench ends; of util-linux. */
const SETPRIV = ['/usr/bin/setpriv', '--pdeathsig', 'KILL'];

const SETTINGS = {
  name: 'microvm-16',
  description:
    'the rollout in 16 microVMs that start from one saved guest; under QEMU without KVM, so tools are slow and waits three times as long',
  sandboxes: 16,
  turns: 6,
  sandboxMiB: 120,
  divergence: 0.25,
  curiosity: 0.15,
  // Tools take five times as long as in processes of the host; waits as long in proportion make a run two thirds longer.
  waitScale: 3,
  // Would take minutes.
  suite: false,
};

const templateOf = (files: string, project: Project): { command: string[]; env: Record<string, string> } => ({
  command: [
    ...SETPRIV,
    process.execPath,
    PROGRAM,
    files,
    projectRoot(files, project),
    taskFile(project.name),
  ],
  env: {},
});

/** The attempts of rollout-16, each in a machine of its own. */
export const microvm: Workload = {
  ...SETTINGS,
  async prepare(files, note, signal) {
    await prepareProjects(files, PROJECTS, note, signal);
    await prepareGuests(files, note, signal);
  },
  plan: (options) => planCoding(SETTINGS, options, templateOf),
};
