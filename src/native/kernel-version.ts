/** Kernels in which something must not be used, by the first and the last of them. */
export type BadKernel = readonly [first: string, last: string, why: string];

const numbersOf = (text: string): number[] => /^[\d.]+/.exec(text)?.[0].split('.').map(Number) ?? [];

/** Compares a release, as uname(2) has it, with a version, by as many numbers as that has. */
export function compareRelease(release: string, version: string): number {
  const numbers = numbersOf(release);
  for (const [i, part] of version.split('.').map(Number).entries()) {
    if ((numbers[i] ?? 0) !== part) return (numbers[i] ?? 0) - part;
  }
  return 0;
}

/** Why a kernel is bad, or undefined. */
export const badKernel = (kernels: readonly BadKernel[], release: string): string | undefined =>
  kernels.find(
    ([first, last]) => compareRelease(release, first) >= 0 && compareRelease(release, last) <= 0,
  )?.[2];
