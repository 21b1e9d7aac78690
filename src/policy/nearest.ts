/** Number of single-character edits (insert, delete, replace) from `a` to `b`. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, previous[j] + 1, row[j - 1] + 1));
    }
    previous = row;
  }
  return previous[b.length];
}

/** The known name that `name` was probably meant to be, or undefined when none is close. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const fold = name.slice(0, 64).toLowerCase();
  const ranked = known
    .map((candidate) => ({ candidate, distance: editDistance(fold, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best && best.distance <= Math.max(2, fold.length / 3) ? best.candidate : undefined;
}
