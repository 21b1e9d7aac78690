// Digests of what a sandbox keeps in memory: one wrong byte of it shows.

import { createHash } from 'node:crypto';

export function digest(...parts) {
  const total = createHash('sha256');
  for (const part of parts) total.update(part).update('\0');
  return total.digest('hex').slice(0, 32);
}

/** Every node of every file the compiler holds: kind, place, flags, and the names and literals as they were parsed. */
export function digestOfTrees(ts, program) {
  const total = createHash('sha256');
  let nodes = 0;
  const numbers = new Int32Array(4 * 4096);
  let used = 0;
  const visit = (node) => {
    nodes++;
    numbers[used++] = node.kind;
    numbers[used++] = node.pos;
    numbers[used++] = node.end;
    numbers[used++] = node.flags;
    if (used === numbers.length) {
      total.update(numbers);
      used = 0;
    }
    if (node.escapedText !== undefined) total.update(node.escapedText);
    else if (node.text !== undefined && node.kind !== ts.SyntaxKind.SourceFile) total.update(node.text);
    ts.forEachChild(node, visit);
  };
  const files = program.getSourceFiles();
  for (const file of files) {
    total.update(file.fileName).update(file.text);
    visit(file);
  }
  total.update(numbers.subarray(0, used));
  return { files: files.length, nodes, digest: total.digest('hex').slice(0, 32) };
}

/** Tokens, comments and scopes of what the linter has parsed. */
export function digestOfLint(sources) {
  const rows = [...sources.keys()].sort().map((path) => {
    const { ast, scopeManager } = sources.get(path);
    const tokens = [...ast.tokens, ...ast.comments].map(
      ({ type, value, range }) => `${type} ${value} ${range}`,
    );
    const scopes = scopeManager.scopes.map(
      ({ type, variables, references }) =>
        `${type} ${variables.map(({ name }) => name)} ${references.map(({ identifier }) => identifier.range[0])}`,
    );
    return [path, ...tokens, ...scopes].join('\n');
  });
  return { files: rows.length, digest: digest(...rows) };
}
