import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

const LIMIT_MS = 30_000;

interface Message {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { message: string };
}

interface AxNode {
  ignored: boolean;
  role?: { value: string };
  name?: { value: string };
}

export interface View {
  width: number;
  height: number;
  scheme: 'light' | 'dark';
}

/** One page in a headless Chromium, spoken to over a pipe (DevTools protocol, messages end with a NUL). */
export class Browser {
  /** What the page wrote to the console, and what Chromium said about it. */
  readonly complaints: string[] = [];
  /** Addresses that the page asked for, itself not among them. */
  readonly requests: string[] = [];
  private readonly waiting = new Map<number, (message: Message) => void>();
  private readonly listeners = new Map<string, () => void>();
  private session: string | undefined;
  private last = 0;

  private constructor(
    private readonly process: ChildProcess,
    private readonly profile: string,
  ) {
    let rest = '';
    (process.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop() ?? '';
      for (const message of messages) this.hear(JSON.parse(message) as Message);
    });
  }

  static async start(program = 'chromium'): Promise<Browser> {
    const profile = mkdtempSync(join(tmpdir(), 'agentzip-chromium-'));
    const flags = [
      '--headless=new',
      '--no-sandbox',
      '--disable-gpu',
      '--no-first-run',
      '--remote-debugging-pipe',
    ];
    const child = spawn(program, [...flags, `--user-data-dir=${profile}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const failed = new Promise<never>((_, reject) => child.once('error', reject));
    const browser = new Browser(child, profile);
    try {
      await Promise.race([browser.attach(), failed]);
    } catch (error) {
      await browser.stop();
      throw error;
    }
    return browser;
  }

  private async attach(): Promise<void> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    this.session = sessionId as string;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.send(`${domain}.enable`);
  }

  async open(address: string): Promise<void> {
    const loaded = new Promise<void>((resolve) => this.listeners.set('Page.loadEventFired', resolve));
    this.requests.length = this.complaints.length = 0;
    await this.send('Page.navigate', { url: address });
    await loaded;
    const own = this.requests.indexOf(address);
    if (own >= 0) this.requests.splice(own, 1);
  }

  async look({ width, height, scheme }: View): Promise<void> {
    await this.send('Emulation.setDeviceMetricsOverride', {
      ...{ width, height, deviceScaleFactor: 1, mobile: width < 500 },
    });
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.send('Emulation.setEmulatedMedia', { media: 'screen', features });
  }

  /** The value of a JavaScript expression in the page; of a promise, what it resolves to. */
  async evaluate<T>(expression: string): Promise<T> {
    const answer = await this.send('Runtime.evaluate', {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (answer.exceptionDetails) throw new Error(JSON.stringify(answer.exceptionDetails));
    return (answer.result as { value: T }).value;
  }

  /** Presses a key: a letter, or its name (`Enter`, `ArrowLeft`). */
  async press(key: string): Promise<void> {
    const text = key.length === 1 ? key : key === 'Enter' ? '\r' : undefined;
    const code =
      { Enter: 13, Escape: 27, ArrowLeft: 37, ArrowRight: 39 }[key] ?? key.toUpperCase().charCodeAt(0);
    const event = { key, code: key, windowsVirtualKeyCode: code };
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...event, ...(text && { text }) });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  /** Roles of controls and pictures that have no name in the accessibility tree. */
  async nameless(): Promise<string[]> {
    const { nodes } = await this.send('Accessibility.getFullAXTree');
    const named = [
      'button',
      'link',
      'searchbox',
      'textbox',
      'radio',
      'image',
      'img',
      'region',
      'table',
      'group',
    ];
    return (nodes as AxNode[]).flatMap(({ ignored, role, name }) =>
      !ignored && named.includes(role?.value ?? '') && !name?.value ? [role?.value ?? ''] : [],
    );
  }

  /** PNG of the whole page. */
  async screenshot(): Promise<Buffer> {
    const { data } = await this.send('Page.captureScreenshot', { captureBeyondViewport: true });
    return Buffer.from(data as string, 'base64');
  }

  /** The page on paper. */
  async pdf(scheme: View['scheme']): Promise<Buffer> {
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.send('Emulation.setEmulatedMedia', { media: 'print', features });
    const { data } = await this.send('Page.printToPDF', { printBackground: false, preferCSSPageSize: true });
    return Buffer.from(data as string, 'base64');
  }

  async stop(): Promise<void> {
    const { pid } = this.process;
    const gone = new Promise<void>((resolve) => this.process.once('exit', () => resolve()));
    if (pid !== undefined && this.process.exitCode === null) {
      process.kill(-pid, 'SIGKILL'); // the group: Chromium's own children too
      await gone;
    }
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  private send(method: string, params: object = {}): Promise<Record<string, unknown>> {
    const id = ++this.last;
    const pipe = this.process.stdio[3] as Writable;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`Chromium did not answer ${method} in ${LIMIT_MS} ms`)),
        LIMIT_MS,
      );
      this.waiting.set(id, ({ result, error }) => {
        clearTimeout(timer);
        if (error) reject(new Error(`${method}: ${error.message}`));
        else resolve(result ?? {});
      });
      pipe.write(`${JSON.stringify({ id, method, params, sessionId: this.session })}\0`);
    });
  }

  private hear({ id, method, params, ...answer }: Message): void {
    if (id !== undefined) {
      this.waiting.get(id)?.(answer);
      this.waiting.delete(id);
      return;
    }
    if (
      method === 'Runtime.consoleAPICalled' ||
      method === 'Runtime.exceptionThrown' ||
      method === 'Log.entryAdded'
    ) {
      this.complaints.push(JSON.stringify(params));
    }
    if (method === 'Network.requestWillBeSent') {
      this.requests.push((params as { request: { url: string } }).request.url);
    }
    if (method !== undefined) this.listeners.get(method)?.();
  }
}
