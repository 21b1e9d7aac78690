import { request } from 'node:http';

/** The API thread of a VMM serves one request at a time, and may be in the middle of a snapshot. */
const PATIENCE_MS = 2000;
const MAX_BYTES = 16_384;

/**
 * Does a Firecracker keep track of the pages its guest writes (`track_dirty_pages`)? With it a diff snapshot has swapped
 * pages; without, it asks mincore(2) and leaves them out (docs/snapshotting/snapshot-support.md of Firecracker). Null: it does
 * not answer.
 */
export function tracksDirtyPages(socketPath: string): Promise<boolean | null> {
  return new Promise((resolve) => {
    const options = { socketPath, path: '/machine-config', timeout: PATIENCE_MS, agent: false };
    const asking = request(options, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > MAX_BYTES) asking.destroy();
      });
      response.on('end', () => resolve(response.statusCode === 200 ? trackedIn(text) : null));
      response.on('error', () => resolve(null));
    });
    asking.on('timeout', () => asking.destroy());
    asking.on('error', () => resolve(null));
    asking.on('close', () => resolve(null));
    asking.end();
  });
}

function trackedIn(text: string): boolean | null {
  try {
    const { track_dirty_pages: tracked } = JSON.parse(text) as { track_dirty_pages?: unknown };
    return typeof tracked === 'boolean' ? tracked : null;
  } catch {
    return null;
  }
}
