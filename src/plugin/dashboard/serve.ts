import { chmodSync, chownSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControllerApi } from '../../controller/api.js';
import { AgentZipError } from '../../errors.js';
import type { Policy } from '../../policy/policy.js';
import { Dashboard } from './dashboard.js';

/** A dashboard that is served, and the file that holds its address with the key. */
export interface Served {
  address: string;
  file: string;
  close(): Promise<void>;
}

export const dashboardFile = (runtimeDir: string): string => join(runtimeDir, 'dashboard.url');

/**
 * Serves the dashboard when the policy wants it. Who may read the control socket may read the key: root, and the
 * group `gid`. Errors: AZ_DASHBOARD.
 */
export async function serveDashboard(
  api: Pick<ControllerApi, 'status'>,
  { dashboard: settings, paths }: Policy,
  gid?: number,
): Promise<Served | null> {
  if (!settings.enabled) return null;
  const { host, port } = settings;
  const dashboard = await Dashboard.start({ host, port, look: () => api.status() });
  const file = dashboardFile(paths.runtimeDir);
  try {
    rmSync(file, { force: true });
    writeFileSync(file, `${dashboard.url}\n`, { mode: 0o600, flag: 'wx' });
    if (gid !== undefined) {
      chownSync(file, process.getuid?.() ?? 0, gid);
      chmodSync(file, 0o640);
    }
  } catch (error) {
    await dashboard.close();
    const details = { address: dashboard.address, reason: (error as Error).message };
    throw new AgentZipError('AZ_DASHBOARD', details, { cause: error });
  }
  const close = async (): Promise<void> => {
    rmSync(file, { force: true });
    await dashboard.close();
  };
  return { address: dashboard.address, file, close };
}
