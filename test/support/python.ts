import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Reads one expression a line and answers with its value; `area(pages)` maps memory of small pages. */
const PROGRAM = `
import ctypes, mmap, os, sys
PAGE = 4096
areas = []
def area(pages):
    m = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m.madvise(15)
    areas.append(m)
    return ctypes.addressof(ctypes.c_char.from_buffer(m))
def touch(index, first, count, value=1):
    m = areas[index]
    for page in range(first, first + count):
        m[page * PAGE] = value
        m[page * PAGE + 8] = page & 255
def fork():
    pid = os.fork()
    if pid == 0:
        sys.stdin.close()
        while True:
            os.read(control, 1)
            touch(0, 0, 2, 9)
            os.write(answer, b'x')
    return pid
control, control_in = os.pipe()
answer_out, answer = os.pipe()
def child_touches():
    os.write(control_in, b'x')
    os.read(answer_out, 1)
print('ready', flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
`;

const LIMIT_MS = 30_000;

/** A python3 process that does what it is told, and ends with the test whatever happens. */
export class Python {
  private readonly lines: AsyncIterableIterator<string>;
  private readonly timer: NodeJS.Timeout;

  private constructor(private readonly child: ChildProcessWithoutNullStreams) {
    this.lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  }

  static async start(): Promise<Python> {
    // Its own process group, so that forked children end with it.
    const python = new Python(spawn('/usr/bin/python3', ['-c', PROGRAM], { detached: true }));
    await python.lines.next();
    return python;
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** Value of a Python expression, as text. */
  async run(expression: string): Promise<string> {
    this.child.stdin.write(`${expression}\n`);
    return (await this.lines.next()).value;
  }

  /** Maps private anonymous memory; returns its address. Areas are numbered from 0. */
  async area(pages: number): Promise<number> {
    return Number(await this.run(`area(${pages})`));
  }

  async stop(): Promise<void> {
    clearTimeout(this.timer);
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    process.kill(-this.pid, 'SIGKILL');
    await exited;
  }
}
