import { Option } from 'commander';
import { AgentZipError } from '../errors.js';
import { DEFAULT_RUNTIME_DIR } from '../plugin/runtime-files.js';

/** Which service a command talks to. */
export const runtimeDirOption = (): Option =>
  new Option('--runtime-dir <dir>', "folder of the service's sockets").default(DEFAULT_RUNTIME_DIR);

/** A parser of whole numbers in [from, to]; AZ_USAGE for anything else. */
export const whole =
  (command: string, option: string, from: number, to: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < from || value > to) {
      throw new AgentZipError('AZ_USAGE', {
        what: `${option} is ${text || 'empty'}, but must be a whole number from ${from} to ${to}`,
        command,
      });
    }
    return value;
  };

/** A parser of decimal numbers in [from, to]; AZ_USAGE for anything else. */
export const decimal =
  (command: string, option: string, from: number, to: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d*\.?\d+$/.test(text) || value < from || value > to) {
      throw new AgentZipError('AZ_USAGE', {
        what: `${option} is ${text || 'empty'}, but must be a number from ${from} to ${to}`,
        command,
      });
    }
    return value;
  };
