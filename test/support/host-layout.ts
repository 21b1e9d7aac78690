import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

const LIMIT_MS = 60_000;

/**
 * Runs what it is told of memory, then answers `ready`, and on each line of input with what that evaluates to.
 * `map_private(path, offset, pages)` maps a file as a VMM maps a snapshot, `map_memfd(name, pages)` as it does a shared memory file.
 */
const PROGRAM = `
import ctypes, mmap, os, sys
PAGE = 4096
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def call(length, flags, fd, offset):
    address = libc.mmap(None, length, 3, flags, fd, offset)
    if address in (None, 2**64 - 1): raise OSError(ctypes.get_errno(), 'mmap')
    return address
def map_private(path, offset, pages):
    fd = os.open(path, os.O_RDONLY)
    address = call(pages * PAGE, 2, fd, offset)
    os.close(fd)
    return address
def map_memfd(name, pages):
    fd = os.memfd_create(name)
    os.ftruncate(fd, pages * PAGE)
    return call(pages * PAGE, 1, fd, 0)
def map_anonymous(pages, flags=0):
    return call(pages * PAGE, 0x22 | flags, -1, 0)
def write(address, pages, value):
    for page in range(pages): ctypes.memset(address + page * PAGE + 8, (value + page) & 255, 64)
    return pages
def read(address, length): return ctypes.string_at(address, length).hex()
def lock(address, pages): return libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(pages * PAGE))
print('ready', flush=True)
for line in sys.stdin: print(eval(line), flush=True)
`;

/** A process that runs under the name of a platform's program, and ends with the test whatever happens. */
export class Impostor {
  private readonly lines: AsyncIterableIterator<string>;
  private readonly timer: NodeJS.Timeout;

  constructor(private readonly child: ChildProcessWithoutNullStreams) {
    this.lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
    child.stderr.pipe(process.stderr);
  }

  get pid(): number {
    return this.child.pid as number;
  }

  async next(): Promise<string> {
    const { value, done } = await this.lines.next();
    if (done === true) throw new Error(`${this.child.spawnargs[0]} has ended`);
    return value;
  }

  ask(expression: string): Promise<string> {
    this.child.stdin.write(`${expression}\n`);
    return this.next();
  }

  async stop(): Promise<void> {
    clearTimeout(this.timer);
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill('SIGKILL');
    await once(this.child, 'exit');
  }
}

/** A root folder with the layout of a platform, over the processes that really run. */
export class HostLayout {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'agentzip-host-')));
  private readonly processes: Impostor[] = [];

  constructor() {
    symlinkSync('/proc', join(this.root, 'proc'));
  }

  path(...names: string[]): string {
    return join(this.root, ...names);
  }

  folder(...names: string[]): string {
    mkdirSync(this.path(...names), { recursive: true });
    return this.path(...names);
  }

  file(name: string, contents: string | Uint8Array): string {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), contents);
    return this.path(name);
  }

  /** Starts the program at `path` below the root, with these arguments behind those that make it do what tests ask. */
  async start(path: string, args: readonly string[], argv0 = this.path(path)): Promise<Impostor> {
    mkdirSync(dirname(this.path(path)), { recursive: true });
    if (!existsSync(this.path(path))) copyFileSync(realpathSync('/usr/bin/python3'), this.path(path));
    const child = spawn(this.path(path), ['-c', PROGRAM, ...args], {
      argv0,
      env: { ...process.env, PYTHONHOME: '/usr' },
    });
    const impostor = new Impostor(child);
    this.processes.push(impostor);
    if ((await impostor.next()) !== 'ready') throw new Error(`${path} does not start`);
    return impostor;
  }

  async stop(): Promise<void> {
    for (const impostor of this.processes) await impostor.stop();
    rmSync(this.root, { recursive: true, force: true });
  }
}
