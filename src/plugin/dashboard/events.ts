import type { ServerResponse } from 'node:http';

const MAX_READERS = 16;
/** Who has taken in less than this of what was sent will not catch up; the page connects again. */
const MAX_BEHIND_BYTES = 4 * 2 ** 20;

/** Pages that are open, as readers of server-sent events. */
export class Events {
  private readonly readers = new Set<ServerResponse>();

  get full(): boolean {
    return this.readers.size >= MAX_READERS;
  }

  get size(): number {
    return this.readers.size;
  }

  add(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write('retry: 2000\n\n');
    this.readers.add(response);
    response.on('close', () => this.readers.delete(response));
  }

  send(event: string, data: unknown): void {
    if (this.readers.size === 0) return;
    const message = `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
    for (const reader of this.readers) {
      if (reader.writableLength > MAX_BEHIND_BYTES) reader.destroy();
      else reader.write(message);
    }
  }

  close(): void {
    for (const reader of this.readers) reader.destroy();
  }
}
