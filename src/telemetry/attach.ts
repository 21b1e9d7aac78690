import { existsSync, readlinkSync } from 'node:fs';
import { AgentZipError, explain } from '../errors.js';
import { type BpfMap, BpfObject } from '../native/bpf.js';
import { SystemError } from '../native/errno.js';

/** The pid namespace the kernel boots with has a fixed inode (PROC_PID_INIT_INO). */
const INITIAL_PID_NAMESPACE = 'pid:[4026531836]';

/** Programs that cost every page fault on the host. Nothing but the prefetch has use for them. */
export const FAULT_PROGRAMS = ['fault_user', 'fault_kernel'];
/** What they need to be told and to tell. */
const FAULT_MAPS = ['tracked', 'ring', 'seen', 'dropped'];

/** Programs that stand in for one that the kernel lacks, best first: trampolines, then kprobes. */
const FALLBACKS: Readonly<Record<string, readonly string[]>> = {
  socket_sent: ['socket_sent_fexit', 'socket_sent_kprobe'],
  socket_arrived: ['socket_arrived_fentry', 'socket_arrived_kprobe'],
  socket_read: ['socket_read_fentry', 'socket_read_kprobe'],
};
const isFallback = (program: string): boolean => Object.values(FALLBACKS).flat().includes(program);

type Choice = (program: string) => boolean;

const isFault: Choice = (program) => FAULT_PROGRAMS.includes(program);
/** Does the kernel get this program from the start, as far as it takes it? */
const isWanted: Choice = (program) => !isFallback(program) && !isFault(program);

export interface AttachOptions {
  objectPath: string;
  /** Where the kernel shows its BTF. */
  btfPath: string;
  /** Name or path of libbpf. */
  library: string;
  /** Processor of the host, as Node names it; default: this one's. */
  architecture?: string;
  /** Size of map `ring`; libbpf rounds it up to a power of two and at least a page. */
  ringBytes: number;
}

export interface Attached {
  object: BpfObject;
  /** Programs that run now. */
  attached: string[];
}

/** Cures by errno, for a program the kernel did not take. */
function remedyOf(error: unknown): string {
  const code = error instanceof SystemError ? error.code : '';
  if (code === 'EPERM' || code === 'EACCES') {
    return 'run as root with CAP_BPF and CAP_PERFMON, kernel lockdown off; AgentZip goes on without this probe';
  }
  if (code === 'ESRCH' || code === 'ENOENT') {
    return 'this kernel lacks the tracepoint (page faults: x86-64 only; sockets: from 6.3 on, before with CONFIG_FUNCTION_TRACER=y or CONFIG_KPROBES=y); AgentZip goes on without this probe';
  }
  return 'use a kernel from 5.15 on with CONFIG_BPF_SYSCALL=y, CONFIG_BPF_EVENTS=y, CONFIG_DEBUG_INFO_BTF=y';
}

function failure(probe: string, step: string, error: unknown, remedy = remedyOf(error)): AgentZipError {
  if (error instanceof AgentZipError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new AgentZipError('AZ_PROBE_FAILED', { probe, step, reason, remedy }, { cause: error });
}

/** Processors for which the object was looked through; see bpf/README.md. */
const ARCHITECTURES = ['x64', 'arm64'];

function requireHost(options: AttachOptions): void {
  const { architecture = process.arch } = options;
  if (!ARCHITECTURES.includes(architecture)) {
    const remedy = `use a host with ${ARCHITECTURES.join(' or ')}; AgentZip goes on without probes`;
    throw failure(options.objectPath, 'used', `it is not for ${architecture}`, remedy);
  }
  if (!existsSync(options.objectPath)) {
    const remedy = 'install AgentZip again, or compile the probes: npm run build:bpf';
    throw failure(options.objectPath, 'read', 'no such file', remedy);
  }
  if (!existsSync(options.btfPath)) throw new AgentZipError('AZ_BTF_MISSING', { path: options.btfPath });
  // The kernel reports pids of the initial namespace: with others we would watch processes we were not told of.
  if (readlinkSync('/proc/self/ns/pid') !== INITIAL_PID_NAMESPACE) {
    const remedy = "run AgentZip in the host's pid namespace; it goes on without probes";
    throw failure('sandbox', 'used', 'AgentZip runs in a pid namespace of its own', remedy);
  }
}

/**
 * A fresh object with only the chosen programs, given to the kernel, with maps of its own but for those that are `shared`. A
 * loaded or refused object can't be loaded again.
 */
function loadOnly(options: AttachOptions, chosen: Choice, shared: readonly BpfMap[]): BpfObject {
  const object = BpfObject.open(options.objectPath, options.library);
  try {
    for (const program of object.programNames) object.setAutoload(program, chosen(program));
    object.setMaxEntries('ring', options.ringBytes);
    for (const map of shared) object.shareMap(map);
    object.load();
    return object;
  } catch (error) {
    object.close();
    throw error;
  }
}

/** Runs the chosen programs, or none of them. Throws for the first that could not be. */
function run(options: AttachOptions, chosen: Choice, shared: readonly BpfMap[] = []): Attached {
  const object = loadOnly(options, chosen, shared);
  const attached = object.programNames.filter(chosen);
  let step = '';
  try {
    for (step of attached) object.attach(step);
    return { object, attached };
  } catch (error) {
    object.close();
    throw failure(step, 'attached', error);
  }
}

function programsOf(options: AttachOptions): string[] {
  const object = BpfObject.open(options.objectPath, options.library);
  try {
    return object.programNames;
  } finally {
    object.close();
  }
}

/** Why the kernel does not run a program, or null. */
function refusal(options: AttachOptions, program: string): AgentZipError | null {
  try {
    run(options, (name) => name === program).object.close();
    return null;
  } catch (error) {
    return failure(program, 'loaded', error);
  }
}

/**
 * Finds out which of the chosen programs the kernel runs, or what stands in for them, by offering each alone; libbpf does not say which
 * one failed. Trampolines that a machine lacks are refused only when they are attached.
 */
function acceptable(
  options: AttachOptions,
  chosen: Choice,
): { accepted: Set<string>; refusals: AgentZipError[] } {
  const accepted = new Set<string>();
  const refusals: AgentZipError[] = [];
  for (const program of programsOf(options).filter(chosen)) {
    const refused = refusal(options, program);
    const runs =
      refused === null ? program : FALLBACKS[program]?.find((one) => refusal(options, one) === null);
    if (runs !== undefined) accepted.add(runs);
    else if (refused !== null) refusals.push(refused);
  }
  return { accepted, refusals };
}

/**
 * Loads and attaches as many programs as this host takes. What it does not take is told in `warnings`, with the remedy;
 * null when nothing is left. Throws nothing for what the host lacks.
 */
export function attachAll(options: AttachOptions, warnings: string[]): Attached | null {
  try {
    requireHost(options);
    try {
      return run(options, isWanted);
    } catch (error) {
      const { accepted, refusals } = acceptable(options, isWanted);
      // All refused have one cause, which is told once.
      if (accepted.size === 0) throw error;
      warnings.push(...refusals.map(explain));
      return run(options, (name) => accepted.has(name));
    }
  } catch (error) {
    warnings.push(explain(failure(options.objectPath, 'loaded', error)));
    return null;
  }
}

/**
 * Attaches the programs of page faults beside those of `main`, which they tell what they see through: events stay in order.
 * What the host does not take is told in `warnings`; null when that is all of them.
 */
export function attachFaults(options: AttachOptions, main: BpfObject, warnings: string[]): Attached | null {
  const shared = FAULT_MAPS.map((name) => main.map(name));
  try {
    return run(options, isFault, shared);
  } catch {
    const { accepted, refusals } = acceptable(options, isFault);
    warnings.push(...refusals.map(explain));
    return accepted.size === 0 ? null : run(options, (name) => accepted.has(name), shared);
  }
}
