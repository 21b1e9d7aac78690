import koffi, { type LibraryHandle } from 'koffi';
import { AgentZipError } from '../errors.js';
import { check, errno, SystemError } from './errno.js';

const LIBBPF = 'libbpf.so.1';
const BPF_ANY = 0;
const ENOENT = 2;

// Pointers to libbpf's structures are plain numbers; 0 is NULL.
const PROTOTYPES = {
  setPrint: 'intptr_t libbpf_set_print(intptr_t fn)',
  possibleCpus: 'int libbpf_num_possible_cpus()',
  open: 'intptr_t bpf_object__open_file(const char *path, intptr_t options)',
  load: 'int bpf_object__load(intptr_t object)',
  close: 'void bpf_object__close(intptr_t object)',
  nextProgram: 'intptr_t bpf_object__next_program(intptr_t object, intptr_t previous)',
  programName: 'const char *bpf_program__name(intptr_t program)',
  setAutoload: 'int bpf_program__set_autoload(intptr_t program, bool on)',
  attach: 'intptr_t bpf_program__attach(intptr_t program)',
  destroyLink: 'int bpf_link__destroy(intptr_t link)',
  findMap: 'intptr_t bpf_object__find_map_by_name(intptr_t object, const char *name)',
  reuseFd: 'int bpf_map__reuse_fd(intptr_t map, int fd)',
  mapFd: 'int bpf_map__fd(intptr_t map)',
  maxEntries: 'uint32_t bpf_map__max_entries(intptr_t map)',
  setMaxEntries: 'int bpf_map__set_max_entries(intptr_t map, uint32_t count)',
  lookup:
    'int bpf_map__lookup_elem(intptr_t map, const void *key, size_t keyBytes, void *value, size_t valueBytes, uint64_t flags)',
  update:
    'int bpf_map__update_elem(intptr_t map, const void *key, size_t keyBytes, const void *value, size_t valueBytes, uint64_t flags)',
  delete: 'int bpf_map__delete_elem(intptr_t map, const void *key, size_t keyBytes, uint64_t flags)',
  nextKey: 'int bpf_map__get_next_key(intptr_t map, const void *key, void *next, size_t keyBytes)',
} as const;

type Libbpf = Record<keyof typeof PROTOTYPES, ReturnType<LibraryHandle['func']>>;

function bind(library: string): Libbpf {
  let loaded: LibraryHandle;
  try {
    loaded = koffi.load(library);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new AgentZipError('AZ_LIBRARY_MISSING', { library, reason, package: 'libbpf1' }, { cause });
  }
  const functions = Object.entries(PROTOTYPES).map(([name, prototype]) => [name, loaded.func(prototype)]);
  const libbpf = Object.fromEntries(functions) as Libbpf;
  libbpf.setPrint(0); // it would write to stderr; callers get errno
  return libbpf;
}

const bound = new Map<string, Libbpf>();

function libbpfOf(library: string): Libbpf {
  let libbpf = bound.get(library);
  if (libbpf === undefined) bound.set(library, (libbpf = bind(library)));
  return libbpf;
}

function checkPointer(pointer: number, call: string, target: string): number {
  if (pointer === 0) throw new SystemError(call, errno(), target);
  return pointer;
}

/** A map whose keys are u32, or bytes, and whose values are u32 or counters. Every call fails with a SystemError unless it says otherwise. */
export class BpfMap {
  /** Number of entries; bytes for a ring buffer. */
  readonly maxEntries: number;
  readonly fd: number;
  // One word each, reused: calls are synchronous and the kernel copies.
  private readonly key = new Uint32Array(1);
  private readonly value = new Uint32Array(1);
  private readonly next = new Uint32Array(1);

  constructor(
    private readonly fn: Libbpf,
    private readonly pointer: number,
    readonly name: string,
  ) {
    this.fd = check(fn.mapFd(pointer), 'bpf_map__fd', name);
    this.maxEntries = fn.maxEntries(pointer);
  }

  /** Sets a u32 value, of a new key or a known one. E2BIG when the map is full. */
  update(key: number, value: number): void {
    this.key[0] = key;
    this.value[0] = value;
    check(
      this.fn.update(this.pointer, this.key, 4, this.value, 4, BPF_ANY),
      'bpf_map__update_elem',
      this.name,
    );
  }

  /** The u32 value of a key; null when there is no such key. */
  get(key: number): number | null {
    this.key[0] = key;
    const result: number = this.fn.lookup(this.pointer, this.key, 4, this.value, 4, 0);
    if (result === -ENOENT) return null;
    check(result, 'bpf_map__lookup_elem', this.name);
    return this.value[0];
  }

  /** `update` for a key of bytes. */
  updateBytes(key: Uint8Array, value: number): void {
    this.value[0] = value;
    check(
      this.fn.update(this.pointer, key, key.byteLength, this.value, 4, BPF_ANY),
      'bpf_map__update_elem',
      this.name,
    );
  }

  /** `delete` for a key of bytes. */
  deleteBytes(key: Uint8Array): boolean {
    const result: number = this.fn.delete(this.pointer, key, key.byteLength, 0);
    if (result !== -ENOENT) check(result, 'bpf_map__delete_elem', this.name);
    return result !== -ENOENT;
  }

  /** False when there was no such key. */
  delete(key: number): boolean {
    this.key[0] = key;
    const result: number = this.fn.delete(this.pointer, this.key, 4, 0);
    if (result === -ENOENT) return false;
    check(result, 'bpf_map__delete_elem', this.name);
    return true;
  }

  /** Keys at about this moment: a key deleted meanwhile may start the walk over, so it is bounded and deduplicated. */
  keys(): number[] {
    const keys = new Set<number>();
    let result: number = this.fn.nextKey(this.pointer, null, this.next, 4);
    for (let steps = 0; result === 0 && steps < 2 * this.maxEntries; steps++) {
      keys.add(this.next[0]);
      this.key[0] = this.next[0];
      result = this.fn.nextKey(this.pointer, this.key, this.next, 4);
    }
    return [...keys];
  }

  /** Sum over the CPUs of a u64 counter of a per-CPU array. Exact below 2^53. */
  sum(key: number): number {
    const counts = new BigUint64Array(check(this.fn.possibleCpus(), 'libbpf_num_possible_cpus', this.name));
    this.key[0] = key;
    const result = this.fn.lookup(this.pointer, this.key, 4, counts, counts.byteLength, 0);
    check(result, 'bpf_map__lookup_elem', this.name);
    return counts.reduce((total, count) => total + Number(count), 0);
  }
}

/**
 * An object file of BPF programs and maps. Nothing is pinned: the kernel drops programs, links and maps with the last
 * descriptor, so also when this process is killed.
 */
export class BpfObject {
  private pointer: number;
  private readonly links: number[] = [];
  private readonly programs = new Map<string, number>();

  private constructor(
    private readonly fn: Libbpf,
    readonly path: string,
  ) {
    this.pointer = checkPointer(fn.open(path, 0), 'bpf_object__open_file', path);
    let program: number = fn.nextProgram(this.pointer, 0);
    for (; program !== 0; program = fn.nextProgram(this.pointer, program)) {
      this.programs.set(fn.programName(program), program);
    }
  }

  /** Parses the file; the kernel has not seen it yet. AZ_LIBRARY_MISSING without libbpf, else a SystemError. */
  static open(path: string, library = LIBBPF): BpfObject {
    return new BpfObject(libbpfOf(library), path);
  }

  get programNames(): string[] {
    return [...this.programs.keys()];
  }

  private program(name: string): number {
    const program = this.programs.get(name);
    if (program === undefined) throw new SystemError('find program', ENOENT, name);
    return program;
  }

  /** Before `load`: whether the kernel shall get this program at all. */
  setAutoload(program: string, on: boolean): void {
    check(this.fn.setAutoload(this.program(program), on), 'bpf_program__set_autoload', program);
  }

  /** Before `load`: entries of a map, bytes of a ring buffer (rounded up to a power of two pages). */
  setMaxEntries(map: string, count: number): void {
    check(this.fn.setMaxEntries(this.findMap(map), count), 'bpf_map__set_max_entries', map);
  }

  /** Before `load`: a map of the same shape in another object takes the place of this object's, and outlives either. */
  shareMap({ name, fd }: BpfMap): void {
    check(this.fn.reuseFd(this.findMap(name), fd), 'bpf_map__reuse_fd', name);
  }

  /** Creates the maps and gives all programs with autoload to the kernel. One that is refused fails them all. */
  load(): void {
    check(this.fn.load(this.pointer), 'bpf_object__load', this.path);
  }

  attach(program: string): void {
    this.links.push(checkPointer(this.fn.attach(this.program(program)), 'bpf_program__attach', program));
  }

  /** After `load`. */
  map(name: string): BpfMap {
    return new BpfMap(this.fn, this.findMap(name), name);
  }

  private findMap(name: string): number {
    return checkPointer(this.fn.findMap(this.pointer, name), 'bpf_object__find_map_by_name', name);
  }

  /** Detaches and unloads everything; maps of this object must not be used afterwards. Harmless when repeated. */
  close(): void {
    for (const link of this.links.splice(0)) this.fn.destroyLink(link);
    if (this.pointer !== 0) this.fn.close(this.pointer);
    this.pointer = 0;
  }
}
