import { HISTORY_PHASES } from './prefetch-model.js';

/** Tools of a phase that are remembered; a host that names more names them in vain. */
const MOST_TOOLS = 16;

/**
 * Which tools a sandbox ran in which of its last tool phases. A tool goes by the name that the host gives it; where it
 * gives none, by that of the programs that the phase started.
 */
export class RecentTools {
  private named: string[] = [];
  private programs: string[] = [];
  /** The last phase first. */
  private readonly phases: string[][] = [];

  /** The host has named a tool that runs now or next. */
  name(tool: string): void {
    if (this.named.length < MOST_TOOLS && !this.named.includes(tool)) this.named.push(tool);
  }

  /** A program was started. */
  started(program: string): void {
    if (this.programs.length < MOST_TOOLS && !this.programs.includes(program)) this.programs.push(program);
  }

  endPhase(): void {
    this.phases.unshift(this.named.length > 0 ? this.named : this.programs);
    this.phases.length = Math.min(this.phases.length, HISTORY_PHASES);
    this.named = [];
    this.programs = [];
  }

  /** The tool that the phase begins with; empty when the host does not say. */
  get next(): string {
    return this.named[0] ?? '';
  }

  /** The tool that ran last before this phase; empty when it is not known. */
  get previous(): string {
    return this.phases[0]?.at(-1) ?? '';
  }

  /** In which of the last phases a tool ran: bit 0 is the last one. */
  phasesOf(tool: string): number {
    return this.phases.reduce((bits, tools, i) => (tools.includes(tool) ? bits | (1 << i) : bits), 0);
  }
}
