import { AgentZipError, explain } from '../../errors.js';
import { version } from '../../paths.js';
import { FORMAT_VERSION } from '../../store/layout.js';
import type { PagerClient } from '../client.js';
import { pagerCommand } from '../process/program.js';
import { PROTOCOL } from '../protocol.js';

/**
 * A pager that was found running may be of another build. One that speaks another protocol, or keeps its pages in another
 * format, is left as it is: AZ_PAGER_VERSION. One of another version is replaced by ours, over the same store and device;
 * when that fails it serves on, and a warning of the client says so.
 */
export async function adopt(client: PagerClient): Promise<void> {
  const found = await client.request('hello', {});
  if (found.protocol !== PROTOCOL || found.storeFormat !== FORMAT_VERSION) {
    const { pid, protocol = 'unknown', storeFormat = 'unknown' } = found;
    throw new AgentZipError('AZ_PAGER_VERSION', {
      ...{ pid, found: found.version, foundFormat: `${protocol}/${storeFormat}` },
      ...{ version, format: `${PROTOCOL}/${FORMAT_VERSION}` },
    });
  }
  if (found.version === version) return;
  try {
    await client.request('replace', { version, command: pagerCommand() });
  } catch (error) {
    if (!(error instanceof AgentZipError) || error.code !== 'AZ_PAGER_REFUSED') throw error;
    client.warnings.push(`the pager is still of version ${found.version}: ${explain(error)}`);
  }
}
