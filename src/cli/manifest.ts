import { Command } from 'commander';
import { manifestText, readManifest } from '../plugin/manifest.js';
import { print, printJson } from './output.js';

/** `agentzip manifest`: what a host platform reads of the plugin. */
export function manifestCommand(): Command {
  return new Command('manifest')
    .description('show what AgentZip needs, finds, does, changes and keeps, as plugin-manifest.json says it')
    .option('--check <file>', 'check a manifest instead, this one or that of another plugin')
    .option('--json', 'print the manifest as JSON')
    .action(({ check, json }: { check?: string; json?: boolean }) => {
      const manifest = readManifest(check);
      if (json) printJson(manifest);
      else print(check === undefined ? manifestText(manifest) : `agentzip: ${check} is valid`);
    });
}
