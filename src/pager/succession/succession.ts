import type { Socket } from 'node:net';
import type { ChannelPlan } from '../requests/channel.js';
import type { FrontEndChoice } from '../front-end-choice.js';
import type { TierName } from '../swap/tier.js';

/** What is swap. */
export interface SwapState {
  tier: TierName;
  swapDevice: string;
  swapType: number;
}

/** What a standby is told on its command line about the pager it waits for. Descriptors are that pager's. */
export interface Succession extends SwapState {
  pid: number;
  channel: ChannelPlan;
  choice: FrontEndChoice;
  storeFd: number;
  lockFd: number;
  device: string;
  /** How often the device has passed to a standby so far. */
  takeovers: number;
}

/** The standby's end of the lifeline, a socket between it and the pager. */
export const LIFELINE_FD = 3;

/**
 * What is said on the lifeline, one JSON object a line. To the standby: which packs are loaded, whether a drain has
 * begun (or was refused), that another tier is being put before the device (null: no more) and what is swap then, and that it is
 * not needed any more. From it: that it can take over from now on.
 */
export type LifelineMessage =
  | { op: 'pack'; pack: number; path: string }
  | { op: 'dropPack'; pack: number }
  | { op: 'draining'; draining: boolean }
  | { op: 'changing'; to: TierName | null }
  | { op: 'swap'; swap: SwapState }
  | { op: 'farewell' }
  | { op: 'ready' };

/** One end of a lifeline. */
export class Lifeline {
  private rest = '';
  /** Resolves when the other end is gone. */
  readonly closed: Promise<void>;

  constructor(
    private readonly socket: Socket,
    private readonly hear: (message: LifelineMessage) => void,
  ) {
    socket.setEncoding('utf8');
    socket.on('data', (text) => this.take(String(text)));
    socket.on('error', () => {}); // `close` follows
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  say(message: LifelineMessage): void {
    if (!this.socket.destroyed) this.socket.write(`${JSON.stringify(message)}\n`);
  }

  private take(text: string): void {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() as string;
    for (const line of lines) this.hear(JSON.parse(line) as LifelineMessage);
  }
}
