import type { ProcessSpec } from './plain.js';

/**
 * What forbids or bounds taking a sandbox's memory, as far as its adapter can see: guest memory in huge TLB pages; pages
 * that a pause would lose when they are swapped; memory that a userfaultfd handler serves; memory shared by a sentry and
 * its sandbox; pages that are locked or a device's; a cgroup that may not swap.
 */
export type Hazard =
  'hugetlb' | 'swap_loses_snapshot' | 'userfaultfd' | 'shared_memfd' | 'locked' | 'no_swap';

/** A sandbox as its platform shows it. */
export interface FoundSandbox extends ProcessSpec {
  /** `ADAPTER:NAME`, where the name is the platform's own; the same for as long as the sandbox lives. */
  id: string;
  /** What it started from: the digest of an image, the id of a build. */
  template?: string;
  /** Where the memory file is that its guest memory is a private mapping of, in terms of this process. */
  memoryFile?: string;
  tenant?: string;
  /** Folder of a cgroup of its own, where memory.reclaim takes what no single process can be told to page out. */
  reclaimCgroup?: string;
  /** `observe`: seen and counted, never paged out. */
  mode: 'reclaim' | 'observe';
  /** Why it is treated so, a sentence for operators. */
  why: string;
  hazards: readonly Hazard[];
}

/** What a platform tells between two looks. */
export interface HostListener {
  /** Sandboxes have come or gone: look again. */
  changed(): void;
  /** A tool begins or ends in a sandbox, which may not be registered. */
  tool(id: string, type: 'tool_start' | 'tool_end', name?: string): void;
  /** The platform has frozen a sandbox, or thawed it: frozen it waits, whatever else is known of it. */
  frozen?(id: string, on: boolean): void;
  /** What the adapter followed by is gone: it goes on looking at intervals. Code and remedy are in the error. */
  failed(error: Error): void;
}

/** One platform. Adapters never act: they look and tell. */
export interface HostAdapter {
  readonly name: string;
  /** Every sandbox there is now. Rejects with an AgentZipError when the platform can not be asked. */
  find(): Promise<FoundSandbox[]>;
  /** Tells of changes as they happen, where the platform can; the returned function ends it. */
  follow?(listener: HostListener): () => void;
}
