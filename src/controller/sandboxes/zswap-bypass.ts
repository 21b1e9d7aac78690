import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolveCgroup } from '../../memory/cgroup.js';
import { zswapIsOn } from '../../memory/zswap.js';
import type { PagerInfo } from '../../pager/protocol.js';
import type { Sandbox } from './sandbox.js';

interface Host {
  isOn: () => boolean;
  folder: (cgroup: string) => string | null;
}

const HOST: Host = { isOn: zswapIsOn, folder: (cgroup) => resolveCgroup(cgroup) };

/**
 * Tier direct on a host that uses zswap: what sandboxes page out passes it by (memory.zswap.max 0), where they have a cgroup v2 of
 * their own. The limit that was there comes back with the sandbox's removal.
 */
export class ZswapBypass {
  private readonly before = new Map<Sandbox, { file: string; limit: string }>();

  constructor(
    private readonly tier: PagerInfo['tier'],
    private readonly host: Host = HOST,
  ) {}

  add(sandbox: Sandbox): void {
    const { cgroup } = sandbox.spec;
    if (this.tier !== 'direct' || cgroup === undefined || !this.host.isOn()) return;
    const folder = this.host.folder(cgroup);
    const file = `${folder}/memory.zswap.max`;
    if (folder === null || !existsSync(file)) return; // cgroup v1, or a kernel without
    const limit = readFileSync(file, 'latin1').trim();
    if (limit === '0') return;
    writeFileSync(file, '0');
    this.before.set(sandbox, { file, limit });
  }

  remove(sandbox: Sandbox): void {
    const changed = this.before.get(sandbox);
    this.before.delete(sandbox);
    if (changed === undefined) return;
    // It may have gone with its sandbox, at any moment.
    try {
      if (existsSync(changed.file)) writeFileSync(changed.file, changed.limit);
    } catch (error) {
      if (!['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
  }
}
