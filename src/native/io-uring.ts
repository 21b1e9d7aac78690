import { check, errno } from './errno.js';
import { close } from './files.js';
import { libc } from './libc.js';
import { MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, mmap, PROT_READ, PROT_WRITE, view } from './memory.js';

// By number: the same on x86-64 and arm64.
const SYS = { setup: 425, enter: 426 } as const;
const SETUP_SQE128 = 1 << 10;
const ENTER = { getevents: 1, extArg: 8 } as const;
const MAP_POPULATE = 0x8000;
const OFF_SQES = 0x10000000;
const CQE_WORDS = 4;
const PARAMS_BYTES = 120;
/** Words of struct io_uring_params (include/uapi/linux/io_uring.h). */
const Param = {
  SQ_ENTRIES: 0,
  CQ_ENTRIES: 1,
  FLAGS: 2,
  SQ_TAIL: 11,
  SQ_MASK: 12,
  SQ_ARRAY: 16,
  CQ_HEAD: 20,
  CQ_TAIL: 21,
  CQ_MASK: 22,
  CQ_CQES: 25,
} as const;
/** Native scratch: struct io_uring_getevents_arg, and the struct __kernel_timespec that it points to. */
const ARGUMENT = { bytes: 24, timespecAt: 24, allBytes: 40 } as const;

export const OP_POLL_ADD = 6;
export const OP_URING_CMD = 46;

/** Words of a submission: opcode in the lowest byte, then what most operations have. */
export const Sqe = {
  OPCODE: 0,
  FD: 1,
  OFFSET: 2,
  COMMAND: 2,
  POLL_EVENTS: 7,
  USER_DATA: 8,
  CMD: 12,
} as const;

const setup_ = libc.func('syscall', 'intptr_t', ['intptr_t', 'intptr_t', 'intptr_t']);
const enter_: (
  n: number,
  fd: number,
  submit: number,
  least: number,
  flags: number,
  argument: number,
  bytes: number,
) => number = libc.func('syscall', 'intptr_t', Array(7).fill('intptr_t'));

/**
 * An io_uring (Linux 5.11 for its timeouts) over mapped memory, for one thread. Nothing is allocated once it is made: a
 * submission is written as words, a completion read as two numbers.
 */
export class IoUring {
  readonly fd: number;
  /** All submissions; `prepare` says at which word one begins. */
  readonly submissions: Uint32Array;
  /** Result of the completion that `next` returned. */
  result = 0;
  private readonly words: Int32Array;
  private readonly entryWords: number;
  private readonly at: { [Place in keyof typeof Param]: number };
  private readonly argument = mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  private readonly argumentWords = new Uint32Array(view(this.argument, ARGUMENT.allBytes));
  /** Prepared, and not yet submitted. */
  private pending = 0;

  /** `wide`: submissions of 128 bytes, which commands to some devices need. */
  constructor(entries: number, { wide }: { wide: boolean }) {
    const address = mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    const params = new Uint32Array(view(address, PARAMS_BYTES));
    params[Param.FLAGS] = wide ? SETUP_SQE128 : 0;
    this.fd = check(setup_(SYS.setup, entries, address), 'io_uring_setup', `${entries} entries`);
    const ringBytes = Math.max(
      params[Param.SQ_ARRAY] + params[Param.SQ_ENTRIES] * 4,
      params[Param.CQ_CQES] + params[Param.CQ_ENTRIES] * CQE_WORDS * 4,
    );
    const share = MAP_SHARED | MAP_POPULATE;
    const ring = mmap(ringBytes, PROT_READ | PROT_WRITE, share, this.fd);
    this.words = new Int32Array(view(ring, ringBytes));
    this.entryWords = wide ? 32 : 16;
    const bytes = params[Param.SQ_ENTRIES] * this.entryWords * 4;
    this.submissions = new Uint32Array(
      view(mmap(bytes, PROT_READ | PROT_WRITE, share, this.fd, OFF_SQES), bytes),
    );
    const at = Object.entries(Param).map(([place, word]) => [place, params[word] / 4]);
    this.at = Object.fromEntries(at) as typeof this.at;
    // struct io_uring_getevents_arg: no signal mask, and where the timeout is.
    new BigUint64Array(view(this.argument, ARGUMENT.bytes))[2] = BigInt(this.argument + ARGUMENT.timespecAt);
  }

  /** First word of a cleared submission, which the next `enter` hands over. Fill it before that. */
  prepare(): number {
    const { words, at, entryWords } = this;
    const tail = words[at.SQ_TAIL];
    const index = tail & words[at.SQ_MASK];
    this.submissions.fill(0, index * entryWords, (index + 1) * entryWords);
    words[at.SQ_ARRAY + index] = index;
    Atomics.store(words, at.SQ_TAIL, (tail + 1) | 0);
    this.pending++;
    return index * entryWords;
  }

  /** Hands all that is prepared to the kernel. 0, or the errno of what kept it. */
  submit(): number {
    while (this.pending > 0) {
      const done = enter_(SYS.enter, this.fd, this.pending, 0, 0, 0, 0);
      if (done < 0) return errno();
      this.pending -= done;
    }
    return 0;
  }

  /** Hands over what is prepared, and blocks until something is complete or `timeoutMs` have passed. */
  wait(timeoutMs: number): void {
    const { argumentWords } = this;
    const seconds = Math.floor(timeoutMs / 1000);
    argumentWords[ARGUMENT.timespecAt / 4] = seconds;
    argumentWords[ARGUMENT.timespecAt / 4 + 2] = (timeoutMs - seconds * 1000) * 1e6;
    const flags = ENTER.getevents | ENTER.extArg;
    const done = enter_(SYS.enter, this.fd, this.pending, 1, flags, this.argument, ARGUMENT.bytes);
    if (done > 0) this.pending -= done;
  }

  /** Takes the oldest completion: its user data, or -1 when there is none. */
  next(): number {
    const { words, at } = this;
    const head = words[at.CQ_HEAD];
    // The kernel may add one whenever this thread enters it, or is interrupted.
    if (head === Atomics.load(words, at.CQ_TAIL)) return -1;
    const cqe = at.CQ_CQES + (head & words[at.CQ_MASK]) * CQE_WORDS;
    const data = words[cqe];
    this.result = words[cqe + 2];
    Atomics.store(words, at.CQ_HEAD, (head + 1) | 0);
    return data;
  }

  close(): void {
    close(this.fd);
  }
}
