import { MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT, addressOf } from '../../native/memory.js';
import { PR_SET_SECCOMP, prctl } from '../../native/process.js';

export const LOCK_FLAGS = MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT;

/** Architecture as seccomp names it, and its number of madvise(2). */
const ARCHITECTURES: Record<string, { audit: number; madvise: number }> = {
  x64: { audit: 0xc000003e, madvise: 28 },
  arm64: { audit: 0xc00000b7, madvise: 233 },
};

const LD = 0x20; // load a 32-bit word of struct seccomp_data
const JEQ = 0x15;
const RET = 0x06;
const ALLOW = 0x7fff0000;
const ERRNO_0 = 0x00050000;
const AT = { nr: 0, arch: 4, advice: 16 + 2 * 8 };
const MADV_DONTNEED = 4;
const MADV_FREE = 8;
const SECCOMP_MODE_FILTER = 2;

/** A classic BPF program: answer 0, without doing anything, to madvise(DONTNEED or FREE); allow all else. */
export function madviseFilter(architecture: string): Buffer {
  const { audit, madvise } = ARCHITECTURES[architecture];
  const program: [code: number, jumpTrue: number, jumpFalse: number, k: number][] = [
    [LD, 0, 0, AT.arch],
    [JEQ, 0, 6, audit],
    [LD, 0, 0, AT.nr],
    [JEQ, 0, 4, madvise],
    [LD, 0, 0, AT.advice],
    [JEQ, 1, 0, MADV_DONTNEED],
    [JEQ, 0, 1, MADV_FREE],
    [RET, 0, 0, ERRNO_0],
    [RET, 0, 0, ALLOW],
  ];
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code, jumpTrue, jumpFalse, k], i) => {
    bytes.writeUInt16LE(code, i * 8);
    bytes[i * 8 + 2] = jumpTrue;
    bytes[i * 8 + 3] = jumpFalse;
    bytes.writeUInt32LE(k, i * 8 + 4);
  });
  return bytes;
}

/**
 * Lets V8 live in locked memory. Discarding locked pages fails with EINVAL, and V8 aborts when a discard fails (seen
 * with Node 20: "Check failed: 0 == ret"). The filter outlives exec, so the launcher sets it before Node starts.
 */
export function allowLockedHeap(): void {
  const filter = madviseFilter(process.arch);
  // struct sock_fprog: u16 length, padding, pointer
  const program = Buffer.alloc(16);
  program.writeUInt16LE(filter.length / 8, 0);
  program.writeBigUInt64LE(BigInt(addressOf(filter)), 8);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, addressOf(program));
}
