import { AgentZipError, ERRORS, type ErrorCode } from '../errors.js';

/** HTTP status of an error's answer; 500 for codes not named here. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  AZ_BAD_REQUEST: 400,
  AZ_BAD_JSON: 400,
  AZ_UNKNOWN_EVENT: 400,
  AZ_NO_SUCH_PROCESS: 400,
  AZ_NO_SUCH_CGROUP: 400,
  AZ_OWN_PROCESS: 400,
  AZ_PACK_INVALID: 400,
  AZ_FOREIGN_NAMESPACE: 403,
  AZ_NO_ROUTE: 404,
  AZ_UNKNOWN_SANDBOX: 404,
  AZ_UNKNOWN_TEMPLATE: 404,
  AZ_METHOD_NOT_ALLOWED: 405,
  AZ_PROCESS_CLAIMED: 409,
  AZ_TEMPLATE_IN_USE: 409,
  AZ_BODY_TOO_LARGE: 413,
  AZ_DRAINING: 503,
  AZ_DRAIN_MEMORY: 503,
  AZ_PAGER_LOST: 503,
  AZ_PAGER_REFUSED: 503,
  AZ_TIMEOUT: 504,
  AZ_STORE_FULL: 507,
  AZ_PACK_WRITE: 507,
  AZ_PAUSE_WRITE: 507,
};

/** Body of every answer that is not a success. */
export interface ErrorBody {
  error: { code: string; message: string; remedy: string; details: Record<string, string | number> };
}

/** Anything thrown, as one of our errors. */
export function asAgentZipError(error: unknown): AgentZipError {
  if (error instanceof AgentZipError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new AgentZipError('AZ_INTERNAL', { reason }, { cause: error });
}

export const statusOf = (error: AgentZipError): number => STATUS[error.code] ?? 500;

export const errorBody = ({ code, message, remedy, details }: AgentZipError): ErrorBody => ({
  error: { code, message, remedy, details },
});

/** The error that an answer describes. A code this version does not know becomes AZ_INTERNAL. */
export function fromErrorBody(body: unknown, status: number): AgentZipError {
  const error = (body as Partial<ErrorBody> | null)?.error;
  if (error && Object.hasOwn(ERRORS, error.code)) {
    return new AgentZipError(error.code as ErrorCode, error.details);
  }
  return new AgentZipError('AZ_INTERNAL', { reason: error?.message ?? `HTTP status ${status}` });
}
