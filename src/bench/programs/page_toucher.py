"""Touches fresh pages again and again, and does nothing else: the process that probes of page faults slow down most.

usage: page_toucher.py PAGES
For each line `COUNT` it reads, touches PAGES fresh pages COUNT times, and prints the CPU time it took in ns.
"""

import mmap
import sys
import time

PAGE = 4096
MADV_NOHUGEPAGE = 15

pages = int(sys.argv[1])
region = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
region.madvise(MADV_NOHUGEPAGE)
ones = b'\1' * pages


def touch():
    # A loop in C, one store a page.
    region[0 : pages * PAGE : PAGE] = ones
    region.madvise(mmap.MADV_DONTNEED)


touch()
print('ready', flush=True)
for line in sys.stdin:
    begin = time.process_time_ns()
    for _ in range(int(line)):
        touch()
    print(time.process_time_ns() - begin, flush=True)
