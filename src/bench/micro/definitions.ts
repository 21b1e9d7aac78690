/** What each figure is, as the result file says it. MB are 10^6 bytes; a page is 4096. */
export const DEFINITIONS: Readonly<Record<string, string>> = {
  subject:
    "A process forked from a Python that has run the demo's tools (numpy, pandas, matplotlib). Its region holds copies of that Python's anonymous pages, in each of which it then changed 1 to 512 of the 512 words of 8 bytes, log-uniformly distributed, so that each page is its own. The forked-from process is AgentZip's template. The rest of the subject is locked in memory; the region has no huge pages. Every system gets the same bytes in the same round.",
  rounds:
    'Every round measures every system once, in an order that rotates; each time its swap is the only one, with a subject of its own. Single figures are medians over the rounds, spread has the least and the greatest too. Every byte of the region is compared after every restore.',
  faultUs:
    'Microseconds to read one byte of a random page that is out, measured by the subject around the read, without what timing a mapped page takes. Each page was found swapped by pagemap and absent from the swap cache by mincore right before. AgentZip: pages that are refined, window closed, prefetch off.',
  pageoutMBps:
    'Pages of the region that end up out by pagemap and not in the swap cache, divided by the time until that is so: with the release step. All pages are dirty. AgentZip: from the event llm_request_sent, the whole product at work. zswap, zram: process_madvise of 256 KiB a call, then release of what stayed in the swap cache.',
  pageoutUnreleasedMBps:
    'The same until pagemap shows the pages as out, whether or not the swap cache still holds them: without the release step.',
  restoreMBps:
    'The subject reads one byte of every page of the region in order, all of it out before: demand faults with whatever the kernel reads ahead.',
  refineMBpsPerCore:
    'Uncompressed bytes that a window refined, divided by the processor seconds (/proc/PID/task/TID/schedstat) of the refine threads of the pager. A fresh pager each round: its JIT warm-up is included.',
  prefetchMBps:
    'Pages that AgentZip put back at a first token after a tool phase that used all of them, divided by the time from the event until AgentZip says that they are back: mapped, or in the swap cache where it is not sure of their use.',
  metadataBytesPerPage:
    'Entries in use of slot and object tables (10 and 25 bytes each) and the hash and sketch index at the size they have grown to, divided by the pages in the store, when all pages are out and refined.',
  metadataHeldBytesPerPage:
    'Resident memory of tables and indexes with all that is in their files (names, result rings, counters), divided likewise. The arena keeps some 270 bytes more for each 64 KiB of page data, outside.',
  fragmentation:
    'Arena memory held minus blocks that hold an object, divided by memory held, one second after refinement.',
  storedBytesPerPage:
    "AgentZip: arena blocks in use divided by pages in the store. zswap, zram: growth of the kernel's pool divided by pages out.",
  devicePageoutMBps:
    "AgentZip's device without its controller: the bench pages out as it does for zswap and zram. Pages stay as they were written.",
  rawFaultUs:
    'faultUs after devicePageoutMBps: pages that were not refined; with tier zswap or zram those that it holds itself.',
  rawRestoreMBps: 'restoreMBps of pages that were not refined.',
};
