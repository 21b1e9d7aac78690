import koffi from 'koffi';

/**
 * The C library. Pointers and sizes go in and out as plain numbers (`intptr_t`, `size_t`): no marshalling,
 * and nothing on the JS heap. An address stays below 2^47 on x86-64 and arm64, so a double holds it exactly.
 */
export const libc = koffi.load('libc.so.6');

/** Bytes of a page; every kernel we support on x86-64 and on arm64 with 4 KiB pages. */
export const PAGE = 4096;
