/** What is known of the processes of sandboxes. Pids are process ids, times CLOCK_MONOTONIC in ns (as a double: exact). */
export interface TelemetrySink {
  /** A page fault at `address` (not rounded to a page), by the process or by the kernel on its behalf. */
  fault(tag: number, pid: number, address: number, timeNs: number, write: boolean): void;
  /** The child is tracked already, with the same tag. */
  fork(tag: number, parentPid: number, childPid: number, timeNs: number): void;
  /** `comm`: the first 15 bytes of the new command name. All of the old address space is gone. */
  exec(tag: number, pid: number, comm: string, timeNs: number): void;
  /** The process is tracked no longer. */
  exit(tag: number, pid: number, timeNs: number): void;
}

/** Order of `enum kind` in bpf/sandbox.bpf.c. */
export const EVENT_KINDS = ['faultUser', 'faultKernel', 'fork', 'exec', 'exit'] as const;
export type EventKind = (typeof EVENT_KINDS)[number];
const [FAULT_USER, FAULT_KERNEL, FORK, EXEC, EXIT] = EVENT_KINDS.keys();

// struct event of bpf/sandbox.bpf.c, in 32-bit words.
const TIME = 0;
const TGID = 2;
const TAG = 3;
const KIND = 4;
const DETAIL = 5;
const ADDRESS = 6;
const COMM = 8;
const COMM_BYTES = 16;
const WORD = 2 ** 32;

/** Bit "write" of the architecture's page fault error code: X86_PF_WRITE, or WnR of arm64's ESR. */
const FAULT_WRITE = process.arch === 'arm64' ? 1 << 6 : 1 << 1;

function commOf(words: Uint32Array, at: number): string {
  const bytes = Buffer.from(words.buffer, words.byteOffset + 4 * (at + COMM), COMM_BYTES);
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end < 0 ? COMM_BYTES : end);
}

/** Hands the record at word `at` to the sink. A kind of a newer object is passed over. */
export function deliver(words: Uint32Array, at: number, sink: TelemetrySink): void {
  const timeNs = words[at + TIME + 1] * WORD + words[at + TIME];
  const pid = words[at + TGID];
  const tag = words[at + TAG];
  const detail = words[at + DETAIL];
  switch (words[at + KIND]) {
    case FAULT_USER:
    case FAULT_KERNEL:
      sink.fault(
        tag,
        pid,
        words[at + ADDRESS + 1] * WORD + words[at + ADDRESS],
        timeNs,
        (detail & FAULT_WRITE) !== 0,
      );
      break;
    case FORK:
      sink.fork(tag, pid, detail, timeNs);
      break;
    case EXEC:
      sink.exec(tag, pid, commOf(words, at), timeNs);
      break;
    case EXIT:
      sink.exit(tag, pid, timeNs);
      break;
  }
}
