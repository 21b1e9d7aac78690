import type { HostAdapter, HostListener } from '../../hosts/adapter.js';
import { Adoption, type AdoptionActions } from './adoption.js';
import type { HostEvent } from '../api.js';
import type { Context } from '../context.js';
import type { Detection } from '../detection.js';
import { Discovery } from './discovery.js';
import { MemoryTemplates, type TemplateMaker } from '../templates/memory-templates.js';
import type { Sandbox } from './sandbox.js';

/** A frozen sandbox waits for its platform and for no model: how long such waits last is learnt apart. */
const FROZEN_MODEL = 'agentzip:frozen';

export interface HostsActions extends Omit<AdoptionActions, 'changed'> {
  /** Takes an event as if a host had sent it. */
  take(sandbox: Sandbox, event: HostEvent): void;
  templates: TemplateMaker;
}

/** The platforms of this host: their sandboxes, and what they tell of them. */
export class Hosts {
  readonly discovery: Discovery;

  constructor(
    private readonly registry: Context['registry'],
    private readonly detection: () => Detection,
    adapters: readonly HostAdapter[],
    intervalMs: number,
    private readonly actions: HostsActions,
  ) {
    const changed = (host: string): void => this.discovery.changed(host);
    const adoption = new Adoption(registry, { ...actions, changed });
    const memory = new MemoryTemplates(actions.templates, changed);
    this.discovery = new Discovery(adapters, intervalMs, {
      settle: (host, found) => {
        for (const sandbox of found) memory.offer(host, sandbox);
        const adopted = adoption.settle(host, found);
        return { ...adopted, warnings: [...adopted.warnings, ...memory.warnings(host)] };
      },
      dropEnded: (host) => adoption.dropEnded(host),
      tool: (...what) => this.tool(...what),
      frozen: (...what) => this.frozen(...what),
    });
  }

  /** The sandbox of that name, if that platform may speak for it. */
  private spokenFor(host: string, id: string): Sandbox | undefined {
    const sandbox = this.registry.find(id);
    return sandbox?.finding?.host === host && sandbox.phaseSource !== 'host' ? sandbox : undefined;
  }

  private tool(host: string, ...[id, type, name]: Parameters<HostListener['tool']>): void {
    const sandbox = this.spokenFor(host, id);
    if (sandbox === undefined) return;
    if (type === 'tool_start' && name !== undefined) sandbox.tools.name(name);
    this.detection().tool(sandbox, type);
  }

  private frozen(host: string, id: string, on: boolean): void {
    const sandbox = this.spokenFor(host, id);
    if (sandbox === undefined) return;
    this.detection().suspend(sandbox, on);
    this.actions.take(
      sandbox,
      on ? { type: 'llm_request_sent', model: FROZEN_MODEL } : { type: 'tool_start' },
    );
  }
}
