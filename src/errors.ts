/**
 * Every error AgentZip raises on purpose: code → what went wrong and what to do about it.
 * `{name}` is filled from the details given to {@link AgentZipError}. docs/errors.md is checked against this table.
 */
export const ERRORS = {
  // Host requirements
  AZ_NOT_ROOT: ['AgentZip needs root, but runs as uid {uid}', 'run it as root (sudo agentzip …)'],
  AZ_CAPABILITY_MISSING: [
    'capability {capability} is missing: {why}',
    'grant it to the service or container',
  ],
  AZ_FUSE_MISSING: ['/dev/fuse can not be opened: {reason}', 'load the kernel module: modprobe fuse'],
  AZ_LOOP_MISSING: ['/dev/loop-control can not be used: {reason}', 'load the kernel module: modprobe loop'],
  AZ_UBLK_MISSING: [
    'ublk can not be used: {reason}',
    'load the kernel module: modprobe ublk_drv; or set pager.frontEnd to auto',
  ],
  AZ_UBLK_STUCK: [
    'the ublk driver has not run {command} within {seconds} s',
    'set pager.frontEnd to fuse-loop, and restart the host: its kernel loses such commands',
  ],
  AZ_NBD_MISSING: [
    'NBD can not be used: {reason}',
    'load the kernel module: modprobe nbd; or set pager.frontEnd to auto',
  ],
  AZ_ZRAM_MISSING: [
    'zram can not stand before the device: {reason}',
    'use a kernel with CONFIG_ZRAM_WRITEBACK=y and modprobe zram; or set pager.tier to direct',
  ],
  AZ_ZRAM_WRITEBACK: [
    '{device} does not write back ({command}): {reason}',
    'see the kernel log for errors of the device behind it; what was not written stays in memory',
  ],
  AZ_TIER_CHANGE: [
    'the tier is {tier}, and not {wanted} as the policy says: {reason}',
    'remove the reason, and reload the policy (SIGHUP); or put pager.tier back',
  ],
  AZ_RECLAIM: [
    'memory.reclaim of {cgroup} is refused: {reason}',
    'give the service write access to the cgroups of its sandboxes; until then their shared memory stays where it is',
  ],
  AZ_ZSWAP_MISSING: [
    'zswap can not stand before the device: {reason}',
    'use a kernel that has a good zswap, see docs/tiers.md; or set pager.tier to direct',
  ],
  AZ_ZSWAP_WRITEBACK: [
    'zswap holds {pages} pages of {sandbox} and writes none of them back',
    'see the kernel log and pool_limit_hit in /sys/kernel/debug/zswap; what was not written stays in memory',
  ],
  AZ_LIBRARY_MISSING: ['{library} can not be loaded: {reason}', 'apt-get install {package}'],
  AZ_BTF_MISSING: [
    'no kernel BTF at {path}',
    'use a kernel with CONFIG_DEBUG_INFO_BTF=y; AgentZip goes on without probes',
  ],
  AZ_PSI_MISSING: [
    'pressure on memory can not be read ({reason}); only the available memory tells when it is short',
    'use a kernel with CONFIG_PSI=y, and boot it with psi=1 where that is off by default',
  ],
  AZ_PROBE_FAILED: ['probe {probe} could not be {step}: {reason}', '{remedy}'],
  AZ_ENDPOINT_UNKNOWN: [
    'no address is known of {names}: requests to these models go unseen',
    'check the name servers, or detect.endpoints in the policy; AgentZip keeps trying',
  ],
  AZ_DOCTOR: [
    'this host can not run AgentZip: {missing}',
    'see the remedies above, then run agentzip doctor again',
  ],

  // Life of the service
  AZ_ALREADY_RUNNING: [
    'another AgentZip runs here (pid {pid}, socket {socket})',
    'use it, or stop it first: agentzip drain',
  ],
  AZ_NOT_RUNNING: ['no AgentZip answers at {socket}', 'start it: agentzip run'],
  AZ_DASHBOARD: [
    'the dashboard can not be served at {address}: {reason}',
    'free the port or change dashboard.port in the policy, then restart; AgentZip runs without it',
  ],
  AZ_SWAP_BUSY: ['{device} is already in use as swap', 'stop what uses it: swapoff {device}'],
  AZ_PAGER_START: ['the pager did not start: {reason}', 'look at {log}; check with agentzip doctor'],
  AZ_PAGER_LOST: [
    'the pager (pid {pid}) is gone: {reason}',
    'restart AgentZip; pager and standby have ended, and pages of sandboxes that were out may be lost',
  ],
  AZ_PAGER_VERSION: [
    'the pager that runs (pid {pid}) is of version {found}, protocol/format {foundFormat}; this is version {version}, {format}, and can not take it over',
    'nothing is lost: start version {found} again to go on; or page everything in with either version, agentzip drain, and then start this one',
  ],
  AZ_PAGER_REFUSED: ['the pager refused {request}: {reason}', 'see docs/errors.md'],
  AZ_DRAIN_MEMORY: [
    'draining needs {neededMiB} MiB to page everything back in, but {availableMiB} MiB is available',
    'stop sandboxes or free memory, then run agentzip drain again',
  ],
  AZ_TIMEOUT: ['{what} took longer than {seconds} s', '{remedy}'],
  AZ_DRAINING: [
    'AgentZip is draining and takes no more work',
    'wait until it has stopped, then start it again',
  ],
  AZ_RUNTIME_DIR: [
    '{path} can not be used: {reason}',
    'check the path and its permissions, or choose another with --runtime-dir or --state-dir',
  ],
  AZ_GROUP_UNKNOWN: ['group {group} does not exist', 'create it, or change server.group in the policy'],
  AZ_ACCESS_DENIED: [
    '{socket} may not be used by uid {uid}',
    'run as root, or join the group that server.group names in the policy',
  ],
  AZ_OTEL_FILE: [
    'spans can not be written to {file}: {reason}',
    'correct otel.file in the policy: its folder must exist and be writable',
  ],
  AZ_INTERNAL: [
    'internal error: {reason}',
    'this is a bug: please report it with what agentzip run has logged',
  ],
  AZ_HOST_UNREACHABLE: [
    '{platform} can not be asked at {address}: {reason}',
    'start it, or correct hosts.{section} in the policy; its sandboxes are served as soon as it answers',
  ],

  // Store
  AZ_STORE_FULL: [
    'the store was full: {refused} writes were refused and their pages stay in memory ({usedMiB} of {limitMiB} MiB in use now)',
    'raise pager.storeMiB in the policy, or run fewer sandboxes',
  ],
  AZ_STORE_CORRUPT: [
    '{pages} stored pages did not match their hash, the last one in slot {slot} of {sandbox}',
    'restart that sandbox; check the memory of the host',
  ],
  AZ_RATIO_DRIFT: [
    'pages of template {template} compress {recent}x, {usual}x is usual; {cause}',
    'capture the template anew from a process that is like its sandboxes are now',
  ],
  AZ_STORE_FORMAT: [
    'the store in {what} can not be used: {reason}',
    'it was written by another version: drain with that version first',
  ],
  AZ_PACK_WRITE: [
    'template pack {path} can not be written: {reason}',
    'make room there, or give paths.stateDir another place in the policy',
  ],
  AZ_PAUSE_WRITE: [
    'that a sandbox is paused can not be noted in {path}: {reason}',
    'make room there, then ask again; a controller that is restarted would not know of the pause',
  ],
  AZ_MODEL_WRITE: [
    'prefetch model {path} can not be written: {reason}',
    'make room there, or give paths.stateDir another place in the policy; until then it is learnt anew at each start',
  ],
  AZ_MODEL_INVALID: [
    'prefetch model {path} can not be used: {reason}',
    'nothing: it is learnt anew and replaced',
  ],
  AZ_PACK_INVALID: ['template pack {path} can not be used: {reason}', 'capture the template again'],

  // Requests of a host
  AZ_BAD_REQUEST: ['{what}', 'see docs/api.md'],
  AZ_BAD_JSON: ['the body is not JSON: {reason}', 'send a JSON object with content-type application/json'],
  AZ_BODY_TOO_LARGE: ['the body has more than {limitKiB} KiB', 'send a smaller body'],
  AZ_NO_ROUTE: ['{method} {path} is not known', 'see docs/api.md'],
  AZ_METHOD_NOT_ALLOWED: ['{method} is not allowed on {path}', 'allowed: {allowed}'],
  AZ_UNKNOWN_SANDBOX: ['sandbox {id} is not registered', 'register it: PUT /v1/sandboxes/{id}'],
  AZ_UNKNOWN_TEMPLATE: ['template {id} is not registered', 'register it: PUT /v1/templates/{id}'],
  AZ_TEMPLATE_IN_USE: [
    'template {id} is in use',
    'delete its sandboxes first, or give the new template another id',
  ],
  AZ_UNKNOWN_EVENT: ['event type {type} is not known', 'known: {known}'],
  AZ_NO_SUCH_PROCESS: ['pid {pid} is no process', 'register the sandbox while it runs'],
  AZ_FOREIGN_NAMESPACE: [
    "pid {pid} belongs to another user's namespace",
    'run AgentZip in the user namespace that owns the sandbox, or in the initial one',
  ],
  AZ_NO_SUCH_CGROUP: [
    'cgroup {cgroup} does not exist or holds no process',
    'give the path below the cgroup mount',
  ],
  AZ_OWN_PROCESS: ['pid {pid} is AgentZip itself', 'give the pids of the sandbox'],
  AZ_PROCESS_CLAIMED: ['pid {pid} already belongs to sandbox {owner}', 'delete that sandbox first'],

  // Policy and command line
  AZ_POLICY_READ: ['policy {file} can not be read: {reason}', 'check the path and its permissions'],
  AZ_POLICY_WRITE: [
    'policy {file} can not be written: {reason}',
    'choose another name, or remove what is there',
  ],
  AZ_POLICY_KEPT: [
    '{keys} differ in the policy, and can not change while AgentZip runs',
    'drain and start it anew, or put them back',
  ],
  AZ_POLICY_SYNTAX: [
    '{file}:{line}:{column}: {reason}',
    'correct the file; agentzip policy check {file} tests it',
  ],
  AZ_POLICY_INVALID: ['{file}:{line}: {key} {reason}', 'allowed: {allowed}'],
  AZ_MANIFEST: ['manifest {file} can not be used: {reason}', 'see src/plugin/manifest.schema.json'],
  AZ_USAGE: ['{what}', 'see agentzip {command} --help'],

  // Demo and bench
  AZ_WORKLOAD_FAILED: ['the workload failed: {reason}', 'see {log}'],
  AZ_RESULTS_DIFFER: [
    'results differ from the run without AgentZip: {what}',
    'this is a bug: please report it with the seed {seed}',
  ],
  AZ_DUMP_INVALID: [
    'page dump {path} can not be used: {reason}, at byte {offset}',
    'capture it again: agentzip bench --capture DIR',
  ],
  AZ_TRACE_INVALID: [
    'line {line} is no span as AgentZip writes them to otel.file',
    'give the file that otel.file names in the policy, whole',
  ],
  AZ_HOST_NOT_CLEAN: ['left behind on this host: {what}', '{remedy}'],
  AZ_INTERRUPTED: ['stopped by {by}', 'nothing is left behind: run it again when you like'],
} as const satisfies Record<string, readonly [message: string, remedy: string]>;

export type ErrorCode = keyof typeof ERRORS;

type Details = Record<string, string | number>;

const fill = (template: string, details: Details): string =>
  template.replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? `{${name}}`));

/** An error with a code of {@link ERRORS}, its cause in `message` and the way out in `remedy`. */
export class AgentZipError extends Error {
  override readonly name = 'AgentZipError';
  readonly remedy: string;

  constructor(
    readonly code: ErrorCode,
    readonly details: Details = {},
    options?: { cause?: unknown },
  ) {
    super(fill(ERRORS[code][0], details), options);
    this.remedy = fill(ERRORS[code][1], details);
  }
}

/** Any thrown value as one line: code and message of ours, the message of the rest. */
export function explain(error: unknown): string {
  if (error instanceof AgentZipError) return `${error.code}: ${error.message}. Remedy: ${error.remedy}`;
  return error instanceof Error ? error.message : String(error);
}
