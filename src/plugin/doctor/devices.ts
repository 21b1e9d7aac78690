import { closeSync, openSync } from 'node:fs';
import { AgentZipError, type ErrorCode } from '../../errors.js';
import { chooseFrontEnd, type FrontEndChoice, type FrontEndSetting } from '../../pager/front-end-choice.js';
import { refusal, type Requirement } from './requirement.js';

/** Why a device can not be opened for reading and writing, or null when it can. */
function openFailure(path: string): string | null {
  try {
    closeSync(openSync(path, 'r+'));
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

function required(path: string, code: ErrorCode, needed: string): Requirement {
  const reason = openFailure(path);
  return {
    id: path,
    level: 'required',
    ok: reason === null,
    found: reason ?? 'yes',
    needed,
    ...refusal(code, { reason: reason ?? '' }),
  };
}

/** What the pager would take, and why; or why it can take nothing that it may. */
function frontEnd(choice: FrontEndChoice | AgentZipError): Requirement {
  const needed = 'how the kernel reaches the pager (pager.frontEnd)';
  const common = { id: 'front end', level: 'required', needed } as const;
  if (!(choice instanceof AgentZipError)) {
    return { ...common, ok: true, found: `${choice.frontEnd} (${choice.reason})`, remedy: 'none is needed' };
  }
  return { ...common, ok: false, found: choice.message, ...refusal(choice.code, choice.details) };
}

function choose(setting: FrontEndSetting): FrontEndChoice | AgentZipError {
  try {
    return chooseFrontEnd(setting);
  } catch (error) {
    if (error instanceof AgentZipError) return error;
    throw error;
  }
}

/** `setting`: pager.frontEnd of the policy. */
export function devices(setting: FrontEndSetting, choice = choose(setting)): Requirement[] {
  const usesFuse = !(choice instanceof AgentZipError) && choice.frontEnd === 'fuse-loop';
  const files = [
    required('/dev/fuse', 'AZ_FUSE_MISSING', 'the pager serves a file through it'),
    required('/dev/loop-control', 'AZ_LOOP_MISSING', 'makes a block device of that file'),
  ];
  return [frontEnd(choice), ...(usesFuse ? files : [])];
}
