import type { Readable, Writable } from 'node:stream';
import { failed, Lines } from '../lines.js';

/** QEMU's monitor (docs/interop/qmp-intro of QEMU), one command at a time. */
export class Monitor {
  private constructor(
    private readonly lines: Lines,
    private readonly input: Writable,
  ) {}

  static async open(output: Readable, input: Writable): Promise<Monitor> {
    input.on('error', () => undefined); // its end shows in the output
    const monitor = new Monitor(new Lines(output, 'QEMU'), input);
    await monitor.lines.next(); // its greeting
    await monitor.run('qmp_capabilities');
    return monitor;
  }

  /** AZ_WORKLOAD_FAILED when QEMU refuses or ends. */
  async run<T = unknown>(command: string, args: Record<string, unknown> = {}): Promise<T> {
    this.input.write(`${JSON.stringify({ execute: command, arguments: args })}\n`);
    for (;;) {
      const answer = JSON.parse(await this.lines.next()) as { return?: T; error?: { desc: string } };
      if (answer.error !== undefined) throw failed(`QEMU: ${command}: ${answer.error.desc}`);
      if (answer.return !== undefined) return answer.return; // else an event
    }
  }
}
