/** What a connection of a sandbox carried; see bpf/traffic.h. */
export interface Traffic {
  /** Stands for the connection, for ever. */
  connection: number;
  /** Who sent, or read the first request of an inbound connection; else 0. */
  pid: number;
  /** Of the endpoint; of an inbound connection: the sandbox's own. */
  port: number;
  /** The sandbox is the one that is asked. */
  inbound: boolean;
  /** Bytes just sent; 0 when some arrived. */
  sentBytes: number;
  /** Bytes that have arrived on it so far. */
  receivedBytes: number;
}

/** What is known of the processes of sandboxes. Pids are process ids, times CLOCK_MONOTONIC in ns (as a double: exact). */
export interface TelemetrySink {
  /** A page fault at `address` (not rounded to a page), by the process or by the kernel on its behalf. */
  fault(tag: number, pid: number, address: number, timeNs: number, write: boolean): void;
  /** The child is tracked already, with the same tag. */
  fork(tag: number, parentPid: number, childPid: number, timeNs: number): void;
  /** `comm`: the first 15 bytes of the new command name. All of the old address space is gone. */
  exec(tag: number, pid: number, comm: string, timeNs: number): void;
  /** A process that none of them has forked was brought into a sandbox's cgroup; it is tracked already. */
  entered(tag: number, pid: number, timeNs: number): void;
  /** The process is tracked no longer. */
  exit(tag: number, pid: number, timeNs: number): void;
  /** A process sent on a connection that counts, or bytes arrived on one, read or not. */
  traffic(tag: number, traffic: Traffic, timeNs: number): void;
  /** One side has closed the connection; may be told more than once. */
  closed(tag: number, connection: number, timeNs: number): void;
}

/** Order of `enum kind` in bpf/sandbox.bpf.c. */
export const EVENT_KINDS = [
  'faultUser',
  'faultKernel',
  'fork',
  'exec',
  'exit',
  'sent',
  'arrived',
  'closed',
  'entered',
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];
const [FAULT_USER, FAULT_KERNEL, FORK, EXEC, EXIT, SENT, ARRIVED, CLOSED, ENTERED] = EVENT_KINDS.keys();

// struct event of bpf/sandbox.bpf.c and struct traffic_event of bpf/traffic.h, in 32-bit words.
const TIME = 0;
const TGID = 2;
const TAG = 3;
const KIND = 4;
const DETAIL = 5;
const ADDRESS = 6;
const COMM = 8;
const RECEIVED = 8;
const PORT = 10;
const INBOUND = 11;
const COMM_BYTES = 16;
const WORD = 2 ** 32;

/** Bit "write" of the architecture's page fault error code: X86_PF_WRITE, or WnR of arm64's ESR. */
const FAULT_WRITE = process.arch === 'arm64' ? 1 << 6 : 1 << 1;

function commOf(words: Uint32Array, at: number): string {
  const bytes = Buffer.from(words.buffer, words.byteOffset + 4 * (at + COMM), COMM_BYTES);
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end < 0 ? COMM_BYTES : end);
}

const wide = (words: Uint32Array, at: number): number => words[at + 1] * WORD + words[at];

const trafficOf = (words: Uint32Array, at: number): Traffic => ({
  connection: wide(words, at + ADDRESS),
  pid: words[at + TGID],
  port: words[at + PORT],
  inbound: words[at + INBOUND] !== 0,
  sentBytes: words[at + DETAIL],
  receivedBytes: wide(words, at + RECEIVED),
});

/** Hands the record at word `at` to the sink. A kind of a newer object is passed over. */
export function deliver(words: Uint32Array, at: number, sink: TelemetrySink): void {
  const timeNs = wide(words, at + TIME);
  const pid = words[at + TGID];
  const tag = words[at + TAG];
  const detail = words[at + DETAIL];
  switch (words[at + KIND]) {
    case FAULT_USER:
    case FAULT_KERNEL:
      sink.fault(tag, pid, wide(words, at + ADDRESS), timeNs, (detail & FAULT_WRITE) !== 0);
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
    case SENT:
    case ARRIVED:
      sink.traffic(tag, trafficOf(words, at), timeNs);
      break;
    case ENTERED:
      sink.entered(tag, pid, timeNs);
      break;
    case CLOSED:
      sink.closed(tag, wide(words, at + ADDRESS), timeNs);
      break;
  }
}
