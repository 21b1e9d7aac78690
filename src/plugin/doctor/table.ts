import type { DoctorReport } from '../doctor.js';
import type { Requirement } from './requirement.js';

const NAME_WIDTH = 28;

function lines({ id, ok, level, found, needed, remedy }: Requirement): string[] {
  const mark = ok ? 'ok     ' : level === 'required' ? 'MISSING' : 'missing';
  const first = `  ${mark}  ${id.padEnd(NAME_WIDTH)}  ${found}`;
  if (ok) return [first];
  const indent = ' '.repeat(11);
  return [first, `${indent}needed: ${needed}`, `${indent}remedy: ${remedy}`];
}

function platformLines({ platforms }: DoctorReport): string[] {
  if (platforms.length === 0) return ['platforms: none is seen; sandboxes are those that a host registers'];
  const lines = platforms.map(({ name, sign, adapter }) => {
    const served =
      adapter === null ? 'no adapter: register its sandboxes' : `agentzip run --hosts ${adapter}`;
    return `  ${name.padEnd(NAME_WIDTH)}  ${sign}: ${served}`;
  });
  return ['platforms', ...lines];
}

/** The report for people. */
export function doctorTable(report: DoctorReport): string {
  const { ok, requirements } = report;
  const of = (level: Requirement['level']): Requirement[] =>
    requirements.filter((requirement) => requirement.level === level);
  const missing = of('optional').filter((requirement) => !requirement.ok).length;
  const verdict = ok
    ? `this host can run AgentZip${missing === 0 ? '' : `; optional and missing: ${missing}`}`
    : 'this host can not run AgentZip';
  return [
    'required',
    ...of('required').flatMap(lines),
    'optional',
    ...of('optional').flatMap(lines),
    ...platformLines(report),
    verdict,
    '',
  ].join('\n');
}
