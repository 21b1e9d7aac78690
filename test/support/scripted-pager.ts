import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { AgentZipError } from '../../src/errors.js';
import { PagerClient } from '../../src/pager/client.js';
import { encodeFrame, FrameReader } from '../../src/pager/frames.js';
import {
  PROTOCOL,
  type Op,
  type PagerInfo,
  type PagerStatus,
  type RefineResult,
  type Requests,
} from '../../src/pager/protocol.js';
import { version } from '../../src/paths.js';
import { FORMAT_VERSION } from '../../src/store/layout.js';

const NO_ENCODINGS = {
  ...{ same: 0, duplicate: 0, template: 0, delta: 0, sparse: 0, dictionary: 0, clustered: 0 },
  ...{ zstd: 0, raw: 0, staged: 0 },
};
const NO_MEMORY = {
  ...{ arenaHeldBytes: 0, arenaUsedBytes: 0, tableHeldBytes: 0, tableUsedBytes: 0 },
  ...{ indexHeldBytes: 0, indexUsedBytes: 0 },
};

/** A window in which nothing was refined. */
export const NO_REFINING: RefineResult = {
  ...{ pages: 0, bytesIn: 0, bytesOut: 0, cpuMs: 0, remaining: 0 },
  ...{ misfits: 0, deltas: { pages: 0, bytes: 0 }, encodings: NO_ENCODINGS },
  times: { startedAtMs: null, refinedAtMs: null, endedAtMs: null },
};

type Script = { [O in Op]?: (request: Requests[O]['request'], tail: Uint8Array) => Requests[O]['reply'] };

/** The status of a pager that holds nothing. */
export const NO_STATUS: PagerStatus = {
  ...{
    poolBytes: 0,
    baseBytes: 0,
    usedSlots: 0,
    foreignSlots: 0,
    encodings: NO_ENCODINGS,
    store: NO_MEMORY,
  },
  encodingBytes: NO_ENCODINGS,
  ...{
    reads: 0,
    writes: 0,
    discards: 0,
    freedSlots: 0,
    refusedWrites: 0,
    corruptPages: 0,
    lastCorrupt: null,
    storeLimitBytes: 0,
    sequence: 1,
    takeovers: 0,
    standbyPid: null,
    packs: [],
    owners: [],
  },
};

/** What `hello` says: a swap type that no device of this host has, so that nothing counts as paged out to it. */
export const HELLO: PagerInfo = {
  pid: 2,
  version,
  protocol: PROTOCOL,
  storeFormat: FORMAT_VERSION,
  device: '/dev/none',
  frontEnd: 'fuse-loop',
  tier: 'direct',
  frontEndReason: 'played',
  swapType: 31,
  slots: 1024,
  takeovers: 0,
};

const ANSWERS: Script = {
  hello: () => HELLO,
  sequence: () => ({ sequence: 1 }),
  loadPack: () => ({ pack: 1, pages: 0, distinctPages: 0 }),
  claim: () => ({ stale: [] }),
  closeWindow: () => NO_REFINING,
  status: () => NO_STATUS,
};

/** What a script raises on purpose is the pager's answer. */
function replyOf(answer: () => object): object {
  try {
    return { ok: answer() };
  } catch (error) {
    if (!(error instanceof AgentZipError)) throw error;
    return { error: { code: error.code, details: error.details } };
  }
}

/** Speaks the pager's protocol over a real socket, serves no device, and notes what it is asked. */
export class ScriptedPager {
  /** Each request as `op owner`, without those that only look. */
  readonly asked: string[] = [];
  private readonly folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  private readonly sockets: Socket[] = [];
  private readonly server: Server;

  private constructor(private readonly script: Script) {
    this.server = createServer((socket) => this.serve(socket));
  }

  static async start(script: Script = {}): Promise<{ pager: ScriptedPager; client: PagerClient }> {
    const pager = new ScriptedPager({ ...ANSWERS, ...script });
    const path = `${pager.folder}/pager.sock`;
    await new Promise<void>((resolve) => pager.server.listen(path, resolve));
    return { pager, client: await PagerClient.connect(path) };
  }

  /** As if it was killed. */
  stop(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private serve(socket: Socket): void {
    this.sockets.push(socket);
    const reader = new FrameReader();
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      for (const { id, json, tail } of reader.push(chunk)) {
        const { op, ...request } = json as { op: Op; owner?: string };
        if (!['hello', 'doubtSole', 'status', 'sequence'].includes(op))
          this.asked.push([op, request.owner].filter(Boolean).join(' '));
        const answer = this.script[op] as ((request: object, tail: Uint8Array) => object) | undefined;
        for (const part of encodeFrame(
          id,
          replyOf(() => answer?.(request, tail) ?? {}),
        ))
          socket.write(part);
      }
    });
  }
}
