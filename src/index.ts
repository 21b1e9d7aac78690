/** What programs may import from `agentzip`; everything else may change without notice. */
export { AgentZipError, ERRORS, type ErrorCode } from './errors.js';
export { version } from './paths.js';
export { EVENT_TYPES } from './controller/api.js';
export { AgentZipClient } from './plugin/client.js';
export type * from './controller/api.js';
export type { ControllerEvents } from './controller/events.js';
export { drainAgentZip } from './plugin/drain.js';
export { runDoctor, type DoctorReport } from './plugin/doctor.js';
export { createAgentZip, type AgentZip } from './plugin/agentzip.js';
export type { AgentZipOptions } from './plugin/lifecycle.js';
export type { SandboxHandle } from './plugin/sandbox-handle.js';
export { loadPolicy, parsePolicy } from './policy/load.js';
export type { PartialPolicy, Policy } from './policy/policy.js';
