import { refusal, type ReadText, type Requirement } from './requirement.js';

interface Capability {
  name: string;
  /** Number in linux/capability.h. */
  bit: number;
  level: Requirement['level'];
  why: string;
  /** A wider capability that does as well. */
  or?: { name: string; bit: number };
}

const SYS_ADMIN = { name: 'CAP_SYS_ADMIN', bit: 21 };

/** Capabilities that AgentZip uses, each with what for. The manifest names the same. */
export const CAPABILITIES: readonly Capability[] = [
  { ...SYS_ADMIN, level: 'required', why: 'mount, swapon and swap offsets in pagemap need it' },
  {
    name: 'CAP_SYS_NICE',
    bit: 23,
    level: 'required',
    why: 'process_madvise on sandboxes needs it, and the real-time priority of the data loop',
  },
  { name: 'CAP_SYS_PTRACE', bit: 19, level: 'required', why: 'reading the memory of sandboxes needs it' },
  { name: 'CAP_IPC_LOCK', bit: 14, level: 'required', why: 'the pager must lock itself in memory' },
  { name: 'CAP_BPF', bit: 39, level: 'optional', why: 'loading probes needs it', or: SYS_ADMIN },
  { name: 'CAP_PERFMON', bit: 38, level: 'optional', why: 'attaching probes needs it', or: SYS_ADMIN },
  {
    name: 'CAP_SYS_RESOURCE',
    bit: 24,
    level: 'optional',
    why: 'without it the pager can not protect itself from reclaim (PR_SET_IO_FLUSHER) and the OOM killer',
  },
];

export function privileges(read: ReadText, uid: number): Requirement[] {
  const effective = BigInt(
    `0x${/^CapEff:\s*([0-9a-f]+)/m.exec(read('/proc/self/status') ?? '')?.[1] ?? '0'}`,
  );
  const has = (bit: number): boolean => ((effective >> BigInt(bit)) & 1n) === 1n;
  const root: Requirement = {
    id: 'root',
    level: 'required',
    ok: uid === 0,
    found: `uid ${uid}`,
    needed: 'uid 0',
    ...refusal('AZ_NOT_ROOT', { uid }),
  };
  return [
    root,
    ...CAPABILITIES.map(({ name, bit, level, why, or }): Requirement => {
      const wider = !has(bit) && or !== undefined && has(or.bit);
      return {
        id: name,
        level,
        ok: has(bit) || wider,
        found: has(bit) ? 'yes' : wider ? `${or.name} instead` : 'no',
        needed: why,
        ...refusal('AZ_CAPABILITY_MISSING', { capability: name, why }),
      };
    }),
  ];
}
