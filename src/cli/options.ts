import { Option } from 'commander';
import { DEFAULT_RUNTIME_DIR } from '../plugin/runtime-files.js';

/** Which service a command talks to. */
export const runtimeDirOption = (): Option =>
  new Option('--runtime-dir <dir>', "folder of the service's sockets").default(DEFAULT_RUNTIME_DIR);
