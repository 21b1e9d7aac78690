import { closeSync } from 'node:fs';
import { canBeBase, hasBlock, isCluster, Kind, namesDictionary } from '../../src/codec/kinds.js';
import { Workspace } from '../../src/codec/kernels.js';
import { memfdCreate, view } from '../../src/native/memory.js';
import { DEFAULT_POLICY } from '../../src/policy/defaults.js';
import { blockBytes } from '../../src/store/size-classes.js';
import { Clusterer } from '../../src/store/clusterer.js';
import { DEPTH, depthOf } from '../../src/store/chains.js';
import { openDictionary } from '../../src/store/dictionaries.js';
import { MAX_DICTIONARIES, OWNER_MASK, Super, type Geometry } from '../../src/store/layout.js';
import { mapPack, packOf, PackSet } from '../../src/store/packs.js';
import { recover } from '../../src/store/recovery.js';
import { objectBaseAt, objectBases, templateBaseAt, templateBases } from '../../src/store/references.js';
import type { EncodingOptions } from '../../src/store/encoding.js';
import { Refiner } from '../../src/store/refiner.js';
import { Store, STORE_BYTES } from '../../src/store/store.js';
import { formatStore, openStore, Tables } from '../../src/store/tables.js';
import { createVolatile, Volatile } from '../../src/store/volatile.js';

export const PAGE = 4096;

export const ENCODING: EncodingOptions = DEFAULT_POLICY.encoding;

/** A store with a refiner in this very thread: what the pager's threads do, step by step. */
export class StoreBench {
  readonly fd = memfdCreate('agentzip-test-store');
  readonly packs = new PackSet();
  tables!: Tables;
  shared!: Volatile;
  store!: Store;
  refiner!: Refiner;
  private clusterer!: Clusterer;
  readonly workspace = new Workspace(2 * PAGE + STORE_BYTES);
  indexFd = -1;

  constructor(
    readonly geometry: Geometry,
    private readonly stagingBytes = 1 << 30,
    private readonly encoding = ENCODING,
  ) {
    formatStore(this.fd, geometry);
    this.restart();
  }

  /** What a new process does after the old one was killed. */
  restart(): void {
    this.tables = new Tables(openStore(this.fd));
    if (this.indexFd >= 0) closeSync(this.indexFd);
    const mapping = createVolatile(this.geometry, 1);
    this.indexFd = mapping.fd;
    this.shared = new Volatile(mapping, this.tables);
    this.store = new Store(this.tables, this.shared, this.packs, this.workspace, {
      fd: this.fd,
      stagingBytes: this.stagingBytes,
      scratch: 2 * PAGE,
    });
    recover(this.store, this.shared);
    this.refiner = this.refinerWith({});
    this.clusterer = new Clusterer(
      this.tables,
      this.packs,
      this.shared.rings[0],
      this.shared.apart,
      this.encoding.level,
    );
  }

  /** A worker's refiner, with some options of its own. */
  refinerWith(options: Partial<EncodingOptions>, tables = this.tables): Refiner {
    const { hashes, sketches, rings } = this.shared;
    const encoding = { ...this.encoding, ...options };
    return new Refiner(tables, this.packs, hashes, sketches, rings[0], encoding);
  }

  loadPack(path: string): number {
    const pack = this.tables.packs.add(path);
    this.packs.add(mapPack(pack, path));
    return pack;
  }

  write(slot: number, page: Uint8Array): boolean {
    this.workspace.bytes.set(page, 0);
    return this.store.write(slot, 0);
  }

  /** A copy of the slot's page, or null when it is damaged. */
  read(slot: number): Uint8Array | null {
    return this.store.read(slot, PAGE) ? this.workspace.bytes.slice(PAGE, 2 * PAGE) : null;
  }

  owner(name: string, domain: string): number {
    const owner = this.tables.owners.add(name);
    this.tables.ownerDomains[owner] = this.tables.domains.add(domain);
    return owner;
  }

  /** `sole`: all that was ever written was the owner's alone. */
  claim(
    owner: number,
    slots: number[],
    sequence = this.tables.superblock[Super.SEQUENCE],
    sole = false,
    apart = false,
  ) {
    return this.store.claim(owner, sequence, Uint32Array.from(slots), sole ? 0 : null, apart);
  }

  /** Lets the worker encode; the result waits in the ring. */
  refine(slot: number, owner: number, pack = 0, templatePage = 0xffffffff, refiner = this.refiner): boolean {
    const domain = this.tables.ownerDomains[owner];
    const task = { slot, owner, domain, pack: this.packs.get(pack), templatePage };
    return refiner.refine(task) !== 'gone';
  }

  /** Lets the worker propose clusters of pages not written after `before`; they wait in the ring. */
  propose(
    owner: number,
    before = this.tables.superblock[Super.SEQUENCE],
    limit = 64,
    goesOn = () => true,
    from = 0,
  ): number {
    const domain = this.tables.ownerDomains[owner];
    return this.clusterer.pass({ owner, domain, before }, from, limit, goesOn);
  }

  cluster(owner: number, before?: number): void {
    for (let from = 0; from >= 0;) {
      from = this.propose(owner, before, 64, () => true, from);
      this.commitAll();
    }
  }

  /** As the pager does between requests, so many times over. */
  keepHouse(turns: number): void {
    for (let turn = 0; turn < turns; turn++) {
      this.store.objects.compact(4000);
      while (this.store.giveBack(64));
    }
  }

  /** Flips a bit of the arena. */
  flip(offset: number): void {
    const byte = new Uint8Array(view(this.tables.arenaAddress + offset, 1));
    byte[0] ^= 0x10;
  }

  /** A dictionary in the place of the domain's open one. Its number. */
  addDictionary(domain: number, bytes: Uint8Array): number {
    const replaces = this.tables.dictionaryVersion[openDictionary(this.tables, domain)];
    return this.store.dictionaries.add(domain, bytes, replaces);
  }

  commitAll(): void {
    while (this.store.commitNext(this.shared.rings[0]));
  }

  kind(slot: number): number {
    return this.tables.objectKind[this.tables.slotObject[slot]];
  }

  close(): void {
    closeSync(this.fd);
    closeSync(this.indexFd);
  }
}

/** Objects that an object names. */
const basesOf = (tables: Tables, object: number): number[] =>
  Array.from({ length: objectBases(tables, object) }, (_, i) => objectBaseAt(tables, object, i));

/** Packs whose pages an object names. */
const packsOf = (tables: Tables, object: number): number[] =>
  Array.from({ length: templateBases(tables, object) }, (_, i) => packOf(templateBaseAt(tables, object, i)));

/** `uses`: how many objects name each dictionary. */
function dictionaryViolations(
  { tables, store }: Pick<StoreBench, 'tables' | 'store'>,
  uses: Uint32Array,
): string[] {
  const found: string[] = [];
  const { dictionaryDomain, dictionaryOpen } = tables;
  const open = new Set<number>();
  for (let number = 1; number <= MAX_DICTIONARIES; number++) {
    const domain = dictionaryDomain[number];
    if (uses[number] !== store.dictionaries.uses[number])
      found.push(`dictionary ${number} counts ${store.dictionaries.uses[number]} uses, has ${uses[number]}`);
    if (domain === 0) continue;
    if (dictionaryOpen[number] === 0 && uses[number] === 0) found.push(`dictionary ${number} is of no use`);
    if (dictionaryOpen[number] === 1 && open.has(domain))
      found.push(`domain ${domain} has two dictionaries open`);
    if (dictionaryOpen[number] === 1) open.add(domain);
  }
  return found;
}

/** Everything that must hold between two operations, recounted from the slots; returns what does not. */
export function violations(bench: Pick<StoreBench, 'tables' | 'store'>): string[] {
  const { tables, store } = bench;
  const found: string[] = [];
  const high = tables.superblock[Super.HIGH_OBJECT];
  const refs = new Uint32Array(high);
  const domains = new Map<number, number>();
  const reach = (object: number, domain: number) => {
    const known = domains.get(object);
    if (known !== undefined && known !== domain)
      found.push(`object ${object} is reachable from domains ${known} and ${domain}`);
    domains.set(object, domain);
    for (const base of basesOf(tables, object)) reach(base, domain);
  };
  for (let slot = 0; slot < tables.slots; slot++) {
    const object = tables.slotObject[slot];
    if (object === 0) continue;
    refs[object]++;
    const owner = tables.slotOwner[slot] & OWNER_MASK;
    // A slot whose owner is gone stays in the domain that its object was shared in.
    const domain = owner === 0 ? tables.objectDomain[object] : tables.ownerDomains[owner];
    reach(object, domain);
  }
  let used = 0;
  const uses = new Uint32Array(MAX_DICTIONARIES + 1);
  const packUses = new Uint32Array(256);
  for (let object = 1; object < high; object++) {
    const dictionary = namesDictionary(tables.objectKind[object]) ? tables.objectBase[object] : 0;
    if (dictionary !== 0) uses[dictionary]++;
    if (dictionary !== 0 && tables.dictionaryDomain[dictionary] !== tables.objectDomain[object])
      found.push(`object ${object} names dictionary ${dictionary}, which is not its domain's`);
    for (const pack of packsOf(tables, object)) packUses[pack]++;
    for (const base of basesOf(tables, object)) {
      refs[base]++;
      const isMember = tables.objectKind[object] === Kind.MEMBER;
      const isFit = isMember
        ? isCluster(tables.objectKind[base]) && tables.objectLength[object] < tables.objectHashLow[base]
        : canBeBase(tables.objectKind[base]);
      if (!isFit) found.push(`delta ${object} names object ${base} of kind ${tables.objectKind[base]}`);
    }
    if (depthOf(tables, object) > DEPTH) found.push(`object ${object} has too long a chain below it`);
  }
  for (let object = 1; object < high; object++) {
    const kind = tables.objectKind[object];
    if (kind === Kind.FREE) {
      if (refs[object] > 0) found.push(`free object ${object} is named ${refs[object]} times`);
      continue;
    }
    if (refs[object] !== tables.refs.of(object)) {
      found.push(`object ${object} counts ${tables.refs.of(object)} references, has ${refs[object]}`);
    }
    if (hasBlock(kind)) used += blockBytes(tables.objectLength[object]);
  }
  found.push(...dictionaryViolations(bench, uses));
  packUses.forEach((used, pack) => {
    const counted = store.objects.packUses[pack];
    if (used !== counted) found.push(`pack ${pack} counts ${counted} uses, has ${used}`);
  });
  if (used !== store.arena.usedBytes)
    found.push(`arena counts ${store.arena.usedBytes} bytes, objects have ${used}`);
  return found;
}
