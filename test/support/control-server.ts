import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentZipError } from '../../src/errors.js';
import { AgentZipClient } from '../../src/plugin/client.js';
import { DrainGate } from '../../src/plugin/drain-gate.js';
import { ControlServer, type ServerOptions } from '../../src/plugin/server.js';
import { MemoryController } from './memory-controller.js';

/** A control server over a controller in memory, in a folder of its own. */
export async function startControlServer(
  options: Partial<ServerOptions> = {},
  controller = new MemoryController(),
) {
  const folder = mkdtempSync(join(tmpdir(), 'agentzip-server-'));
  const socketPath = join(folder, 'agentzip.sock');
  const gate = new DrainGate(controller);
  const internalErrors: AgentZipError[] = [];
  const started = ControlServer.start(
    { api: controller, gate },
    {
      ...{ socketPath, mode: 0o600, maxBodyKiB: 256 },
      onInternalError: (error) => internalErrors.push(error),
      ...options,
    },
  );
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  const server = await started.catch((error: unknown) => {
    removeFolder();
    throw error;
  });
  const client = new AgentZipClient(socketPath);
  const stop = async (): Promise<void> => {
    client.close();
    await server.close();
    removeFolder();
  };
  return { folder, socketPath, controller, gate, server, client, internalErrors, stop };
}

export type TestServer = Awaited<ReturnType<typeof startControlServer>>;
