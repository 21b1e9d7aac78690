import { Command } from 'commander';
import { MANIFEST, manifestText, readManifest } from '../plugin/manifest.js';
import { print, printJson } from './output.js';

/** `agentzip manifest`: what a host platform reads of the plugin. */
export function manifestCommand(): Command {
  return new Command('manifest')
    .description('show what AgentZip needs, finds, does, changes and keeps, as plugin-manifest.json says it')
    .option('--check [file]', 'check a manifest instead: that of another plugin, or without a name this one')
    .option('--json', 'print the manifest as JSON')
    .action(({ check, json }: { check?: string | true; json?: boolean }) => {
      const file = typeof check === 'string' ? check : MANIFEST;
      const manifest = readManifest(file);
      if (json) printJson(manifest);
      else print(check === undefined ? manifestText(manifest) : `agentzip: ${file} is valid`);
    });
}
