import { processCpuMs, threadCpuMs } from '../native/process.js';

/** Where CPU time is added up, ms. */
export interface CpuTime {
  cpuMs: number;
}

/** Calls under way; `last` is what the helper threads had used when that was shared out among them last. */
const calls = new Set<CpuTime>();
let last = 0;

/** CPU time of all threads but the calling one: those on which asynchronous system calls run. */
const helpersMs = (): number => processCpuMs() - threadCpuMs();

function share(): void {
  const now = helpersMs();
  for (const call of calls) call.cpuMs += Math.max(0, now - last) / calls.size;
  last = now;
}

/**
 * Runs an asynchronous system call and adds to `time` what it took of the processor. No interface tells which thread
 * serves a call, so what the helper threads use is shared equally among the calls under way; it holds what the garbage
 * collector's threads use meanwhile, which is little.
 */
export async function timeHelpers<T>(time: CpuTime, call: () => Promise<T> | T): Promise<T> {
  const mine: CpuTime = { cpuMs: 0 };
  share();
  calls.add(mine);
  try {
    return await call();
  } finally {
    share();
    calls.delete(mine);
    time.cpuMs += mine.cpuMs;
  }
}
