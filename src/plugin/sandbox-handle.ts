import type { ControllerApi, Explanation, HostEvent, SandboxStatus } from '../controller/api.js';
import { hostEvent } from './requests.js';

type Facts<T extends HostEvent['type']> = Omit<HostEvent, 'type'> & { type?: T };

/** One registered sandbox of a host in process. Each method throws or rejects with what its route answers. */
export class SandboxHandle {
  constructor(
    private readonly api: ControllerApi,
    readonly id: string,
  ) {}

  /** The agent asks its model: a waiting window opens, unless it will not pay. */
  requestSent(facts: Facts<'llm_request_sent'> = {}): void {
    this.tell({ ...facts, type: 'llm_request_sent' });
  }

  /** The model begins to answer: the window ends at once. */
  firstToken(facts: Facts<'llm_first_token'> = {}): void {
    this.tell({ ...facts, type: 'llm_first_token' });
  }

  /** The answer is there: what the next tool (`tool`: its name) will use is put back. */
  responseEnd(facts: Facts<'llm_response_end'> = {}): void {
    this.tell({ ...facts, type: 'llm_response_end' });
  }

  toolStart(facts: Facts<'tool_start'> = {}): void {
    this.tell({ ...facts, type: 'tool_start' });
  }

  toolEnd(facts: Facts<'tool_end'> = {}): void {
    this.tell({ ...facts, type: 'tool_end' });
  }

  status(): Promise<SandboxStatus> {
    return this.api.getSandbox(this.id);
  }

  /** Why it is treated as it is. */
  explain(): Promise<Explanation> {
    return this.api.explain(this.id);
  }

  /** Resolves when every page is present; nothing goes out until {@link postResume}. */
  prePause(): Promise<void> {
    return this.api.prePause(this.id);
  }

  postResume(): void {
    this.api.postResume(this.id);
  }

  /** Brings its pages back now. */
  wake(): Promise<void> {
    return this.api.wake(this.id);
  }

  /** Pages it back in when its processes still live, and forgets it. */
  remove(): Promise<void> {
    return this.api.deleteSandbox(this.id);
  }

  private tell(event: HostEvent): void {
    this.api.event(this.id, hostEvent(event));
  }
}
