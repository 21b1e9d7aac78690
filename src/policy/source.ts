import { readFileSync } from 'node:fs';
import { isMap, isNode, isSeq, LineCounter, parseDocument, type Document } from 'yaml';
import { AgentZipError } from '../errors.js';

/** A policy is a page of text; more is a wrong file. */
const MAX_BYTES = 1024 * 1024;

/** A policy file, parsed, that still knows where each key stands. YAML 1.2, of which JSON is a part. */
export class PolicySource {
  private constructor(
    readonly file: string,
    private readonly document: Document,
    private readonly lines: LineCounter,
    readonly value: unknown,
  ) {}

  /** Errors: AZ_POLICY_READ, AZ_POLICY_SYNTAX. */
  static read(file: string): PolicySource {
    let bytes: Buffer;
    try {
      bytes = readFileSync(file);
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? String(error);
      throw new AgentZipError('AZ_POLICY_READ', { file, reason }, { cause: error });
    }
    if (bytes.length > MAX_BYTES) {
      throw new AgentZipError('AZ_POLICY_READ', { file, reason: `it has more than ${MAX_BYTES} bytes` });
    }
    return PolicySource.parse(file, decode(file, bytes));
  }

  static parse(file: string, text: string): PolicySource {
    const lines = new LineCounter();
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, strict: true });
    const problem = document.errors[0] ?? document.warnings[0];
    if (problem) {
      const { line, col } = lines.linePos(problem.pos[0]);
      const reason = problem.message.replace(/\s+/g, ' ');
      throw new AgentZipError('AZ_POLICY_SYNTAX', { file, line, column: col, reason });
    }
    try {
      // An empty file is a policy that changes nothing.
      return new PolicySource(file, document, lines, document.toJS({ maxAliasCount: 100 }) ?? {});
    } catch (error) {
      // Aliases that unfold to more than the limit.
      const reason = (error as Error).message;
      throw new AgentZipError('AZ_POLICY_SYNTAX', { file, line: 1, column: 1, reason }, { cause: error });
    }
  }

  /** Line of a key, or of the nearest part of its path that the file has. */
  line(path: readonly string[]): number {
    let node: unknown = this.document.contents;
    let offset = 0;
    for (const key of path) {
      if (isSeq(node)) {
        const item: unknown = node.items[Number(key)];
        offset = isNode(item) ? (item.range?.[0] ?? offset) : offset;
        node = item;
        continue;
      }
      if (!isMap(node)) break;
      const pair = node.items.find((item) => isNode(item.key) && String(item.key) === key);
      if (!pair) break;
      offset = isNode(pair.key) ? (pair.key.range?.[0] ?? offset) : offset;
      node = pair.value;
    }
    return this.lines.linePos(offset).line || 1;
  }
}

function decode(file: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new AgentZipError('AZ_POLICY_READ', { file, reason: 'it is not UTF-8 text' }, { cause: error });
  }
}
