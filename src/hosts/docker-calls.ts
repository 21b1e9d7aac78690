import type { HostListener } from './adapter.js';
import type { EngineEvent } from './docker-engine.js';

/** Calls that are under way in all containers; one more than that is not followed. */
const MOST_CALLS = 16_384;
/** A tool's name is what the prefetch learns by. */
const MOST_NAME = 128;

interface Called {
  id: string;
  healthcheck: readonly string[];
}

/** The command line of Docker's own health check, as its events show it; null when the container has none. */
function healthCommand([kind, ...words]: readonly string[]): string | null {
  if (kind === 'CMD') return words.join(' ');
  return kind === 'CMD-SHELL' ? `/bin/sh -c ${words.join(' ')}` : null;
}

/** Name of the program that is run: for a shell, that of the first word of its command. */
function programOf(command: string): string {
  const inner = /^\S*sh (?:-\S*c )(.*)$/s.exec(command)?.[1] ?? command;
  const [first = ''] = inner.trim().split(/\s+/);
  return first.slice(first.lastIndexOf('/') + 1, MOST_NAME) || 'exec';
}

/** What `docker exec` runs in containers: each is a tool call of an agent outside, but for health checks. */
export class DockerCalls {
  /** Exec id → container. */
  private readonly open = new Map<string, string>();

  /** Forgets those of containers that do not run any more, whose end nobody told. */
  keep(containers: ReadonlyMap<string, unknown>): void {
    for (const [call, container] of this.open) if (!containers.has(container)) this.open.delete(call);
  }

  take(
    action: string,
    { ID, Attributes }: EngineEvent['Actor'],
    called: Called,
    listener: HostListener,
  ): void {
    const { execID } = Attributes;
    const command = /^exec_start: (.*)$/s.exec(action)?.[1];
    if (command !== undefined && execID !== undefined) {
      if (command.trim() === healthCommand(called.healthcheck) || this.open.size >= MOST_CALLS) return;
      this.open.set(execID, ID);
      listener.tool(called.id, 'tool_start', programOf(command));
    } else if (action === 'exec_die' && execID !== undefined) {
      if (this.open.delete(execID)) listener.tool(called.id, 'tool_end');
    } else if (action === 'die') {
      // Those of a container that dies get no end of their own.
      for (const [call, container] of this.open) {
        if (container === ID && this.open.delete(call)) listener.tool(called.id, 'tool_end');
      }
    }
  }
}
