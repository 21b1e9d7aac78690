import { closeSync, existsSync, openSync } from 'node:fs';
import type { ErrorCode } from '../../errors.js';
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

function otherFrontEnd(id: string, path: string, module: string): Requirement {
  const ok = existsSync(path);
  const needed = 'for a front end other than fuse-loop';
  return { id, level: 'optional', ok, found: ok ? 'yes' : 'no', needed, remedy: `modprobe ${module}` };
}

export function devices(): Requirement[] {
  return [
    required('/dev/fuse', 'AZ_FUSE_MISSING', 'the pager serves a file through it'),
    required('/dev/loop-control', 'AZ_LOOP_MISSING', 'makes a block device of that file'),
    otherFrontEnd('ublk', '/dev/ublk-control', 'ublk_drv'),
    otherFrontEnd('nbd', '/sys/module/nbd', 'nbd'),
  ];
}
