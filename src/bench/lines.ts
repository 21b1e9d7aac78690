import { createInterface, type Interface } from 'node:readline';
import { AgentZipError } from '../errors.js';

/** The error of a workload that did not do what it should. */
export const failed = (reason: string): AgentZipError =>
  new AgentZipError('AZ_WORKLOAD_FAILED', { reason, log: 'the lines above' });

/** `promise`, or AZ_WORKLOAD_FAILED once `timeoutMs` have passed. */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failed(`${what} took longer than ${timeoutMs / 1000} s`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lines of a stream, read one at a time; AZ_WORKLOAD_FAILED when the other side is gone. */
export class Lines {
  private readonly lines: string[] = [];
  private readonly waiting: { resolve: (line: string) => void; reject: (error: Error) => void }[] = [];
  private closed = false;
  private readonly reader: Interface;

  constructor(
    input: NodeJS.ReadableStream,
    private readonly name: string,
  ) {
    this.reader = createInterface({ input });
    this.reader.on('line', (line) => {
      const next = this.waiting.shift();
      if (next) next.resolve(line);
      else this.lines.push(line);
    });
    this.reader.on('close', () => {
      this.closed = true;
      for (const { reject } of this.waiting.splice(0)) reject(failed(`${this.name} ended`));
    });
  }

  next(): Promise<string> {
    const line = this.lines.shift();
    if (line !== undefined) return Promise.resolve(line);
    if (this.closed) return Promise.reject(failed(`${this.name} ended`));
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }
}
