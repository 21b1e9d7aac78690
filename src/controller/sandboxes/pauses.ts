import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AgentZipError } from '../../errors.js';
import { isAlive, type ProcessId } from '../../memory/process.js';
import { AtomicFile } from '../../native/atomic-file.js';
import type { Sandbox } from './sandbox.js';

/** Below the runtime directory, which does not outlive the host, as the processes do not. */
export const pausesFile = (runtimeDir: string): string => join(runtimeDir, 'pauses.json');

type Paused = Pick<Sandbox, 'id' | 'members' | 'paused'>;

/**
 * Which sandboxes are between pre-pause and post-resume, on disk, for the controller that is started next. By name and processes:
 * what is resumed from a snapshot under the same name is another one.
 */
export class Pauses {
  private readonly path: string | null;
  private readonly byId: Map<string, readonly ProcessId[]>;

  /** `runtimeDir`: null keeps nothing. */
  constructor(runtimeDir: string | null) {
    this.path = runtimeDir === null ? null : pausesFile(runtimeDir);
    this.byId = new Map(this.path === null ? [] : read(this.path));
  }

  /** A sandbox that has just been registered, paused when it was before. */
  resume(sandbox: Sandbox): Sandbox {
    const { id, members } = sandbox;
    const paused = this.byId.get(id) ?? [];
    sandbox.paused = paused.some(({ pid, startTime }) => members.get(pid)?.process.startTime === startTime);
    return sandbox;
  }

  /** AZ_PAUSE_WRITE: the next controller would not know. It is paused all the same. */
  begin<Some extends Paused>(sandbox: Some): Some {
    sandbox.paused = true;
    const processes = [...sandbox.members.values()].map(({ process }) => process);
    this.byId.set(
      sandbox.id,
      processes.map(({ pid, startTime }) => ({ pid, startTime })),
    );
    this.save();
    return sandbox;
  }

  /** AZ_PAUSE_WRITE: then it stays paused. */
  end(sandbox: Paused): void {
    const before = this.byId.get(sandbox.id);
    if (before !== undefined) {
      this.byId.delete(sandbox.id);
      try {
        this.save();
      } catch (error) {
        this.byId.set(sandbox.id, before);
        throw error;
      }
    }
    sandbox.paused = false;
  }

  private save(): void {
    for (const [id, processes] of this.byId) if (!processes.some(isAlive)) this.byId.delete(id);
    if (this.path === null) return;
    try {
      AtomicFile.write(this.path, Buffer.from(JSON.stringify([...this.byId])));
    } catch (error) {
      const { message: reason } = error as Error;
      throw new AgentZipError('AZ_PAUSE_WRITE', { path: this.path, reason }, { cause: error });
    }
  }
}

/** Only root writes there, and never a part: what can not be read is not there. */
function read(path: string): [string, ProcessId[]][] {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as [string, ProcessId[]][];
  } catch {
    return [];
  }
}
