/** What the figures of a result mean. They stand in every result, so that it can be read alone. */
export const DEFINITIONS: Readonly<Record<string, string>> = {
  owned:
    "Bytes of a sandbox's pages that are present, anonymous and in no other process (bits 63, not 61, 56 of /proc/PID/pagemap).",
  pool: "Bytes of the store (arena, tables, indexes) and of the kernel's zram and zswap.",
  base: 'Resident bytes of template packs.',
  overhead: "Resident bytes of the system's own processes beyond pool and base.",
  swapCache:
    'Pages in the swap cache that no process maps: copies the kernel drops when it needs the memory. Not measured without a system.',
  reductionTemplateFree:
    'Time average over the run of owned without a system, divided by that of owned + pool with it, on the same trajectories.',
  reductionTemplateCharged: 'The same with base added to the costs.',
  reductionAllIn: 'The same with base, overhead and swapCache added to the costs.',
  reductionAtWaitEnd:
    "Owned of a sandbox when its model's first token arrives, mean over all waits, divided by the same with the system and the sandbox's part of the pool added.",
  peakReduction: 'Highest sample of owned without a system, divided by the highest of owned + pool with it.',
  slowdownWall:
    "Time from the first agent's start to the last sandbox's end, divided by the same without a system.",
  toolMs: "A tool call as the agent sees it: the platform's tool_start event and the call itself.",
  bystanders:
    'Tool calls of sandboxes that never wait for a model and are never paged out, each without its tool_start event. Quantiles of a run are divided by those of the run of none that had its number; these calls are in no other figure of tools.',
  toolSlowdown: 'Quantile of the tool calls of all runs, divided by the same quantile without a system.',
  cpuSeconds:
    "Processor seconds from the first agent's start to the last sandbox's end. tools: the sandboxes, with kernel time on their behalf; controller and pager: AgentZip's processes, without their start and the capture of templates; kernel: kernel threads.",
  busyShare: "Share of the machine's processor time in use over the same interval, by anybody.",
  spread: 'median, min and max over the runs; a run is compared with the run of none that had its number.',
};
