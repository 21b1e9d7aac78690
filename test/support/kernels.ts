/** Debian's packages of the kernels that are tested: 12's own, its later one, and that one for clouds. */
export const KERNELS = {
  '6.1': 'linux-image-amd64',
  '6.12': 'linux-image-6.12-amd64',
  '6.12 for clouds': 'linux-image-6.12-cloud-amd64',
} as const;

export type KernelName = keyof typeof KERNELS;
