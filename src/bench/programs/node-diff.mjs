// A plain text diff by lines.

const CONTEXT = 2;

/** Rows of `- `, `+ ` and, two lines around them, `  `; a row `…` stands for equal lines that are left out. */
export function diff(before, after) {
  const rows = compare(before.split('\n'), after.split('\n'));
  const near = new Uint8Array(rows.length);
  rows.forEach((row, i) => {
    if (!row.startsWith('  ')) near.fill(1, Math.max(0, i - CONTEXT), i + CONTEXT + 1);
  });
  return rows.flatMap((row, i) => (near[i] ? [row] : near[i - 1] ? ['…'] : [])).join('\n');
}

/**
 * The shortest script of edits from `a` to `b`: E. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986).
 * Time and memory grow with the number of changed lines, not with the files.
 */
function compare(a, b) {
  const most = a.length + b.length;
  let furthest = new Map([[1, 0]]);
  const trace = [];
  for (let changes = 0; changes <= most; changes++) {
    trace.push(furthest);
    furthest = new Map(furthest);
    for (let k = -changes; k <= changes; k += 2) {
      let x = goesDown(furthest, k, changes) ? furthest.get(k + 1) : furthest.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return rowsOf(a, b, trace);
    }
  }
  return [];
}

const goesDown = (furthest, k, changes) =>
  k === -changes || (k !== changes && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));

function rowsOf(a, b, trace) {
  const rows = [];
  let [x, y] = [a.length, b.length];
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const furthest = trace[changes];
    const k = x - y;
    const down = goesDown(furthest, k, changes);
    const fromK = down ? k + 1 : k - 1;
    const fromX = furthest.get(fromK);
    const startX = changes === 0 ? 0 : down ? fromX : fromX + 1;
    while (x > startX) {
      rows.push(`  ${a[--x]}`);
      y--;
    }
    if (changes === 0) break;
    if (down) rows.push(`+ ${b[--y]}`);
    else rows.push(`- ${a[--x]}`);
  }
  return rows.reverse();
}
