import { readdirSync, readFileSync } from 'node:fs';
import { packageRoot } from '../../../paths.js';

/** One place of a file that attempts change, and the ways in which they do. */
export interface EditSlot {
  path: string;
  /** Stands in the file once. */
  old: string;
  /** What attempts put there; each stands in the changed file once, so that another attempt can follow it. */
  ways: string[];
}

/** A Python project and a task in it: what agents that work on the task look at, change and run. */
export interface Project {
  name: string;
  /** Debian's package of it, which holds its tests, and the version the task was written for. */
  package: string;
  version: string;
  /** Debian's packages of what it imports. */
  dependencies: string[];
  /** Its Python packages; and the modules that the template imports. */
  packages: string[];
  imports: string[];
  /** Libraries that keep classes of the project, and so are imported anew with it after an edit. */
  holders: string[];
  /** What the agents are asked to do. */
  issue: string;
  /** What the template runs and parses once. */
  warm: { tests: string[]; files: string[] };
  lists: string[];
  /** Pattern (extended regular expression) and folder. */
  greps: [pattern: string, path: string][];
  /** File and first line. */
  reads: [path: string, start: number][];
  /** Name and folder. */
  references: [name: string, path: string][];
  edits: EditSlot[];
  /** Arguments of pytest. */
  tests: string[][];
  /** What is run before an attempt is handed in. */
  suite: string[];
  scripts: string[];
}

const FOLDER = `${packageRoot}/src/bench/workloads/projects`;

export const taskFile = (name: string): string => `${FOLDER}/${name}.json`;

/** All projects, by name. */
export const PROJECTS: readonly Project[] = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .sort()
  .map((file) => JSON.parse(readFileSync(`${FOLDER}/${file}`, 'utf8')) as Project);
