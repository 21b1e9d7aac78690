"""Touches fresh pages again and again, and does nothing else: the process that probes of page faults slow down most.

usage: page_toucher.py PAGES
For each line `COUNT` it reads, touches PAGES fresh pages COUNT times, and prints the least CPU time that took in ns: what
else runs on the machine can only make it longer.
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
    begin = time.process_time_ns()
    # A loop in C, one store a page.
    region[0 : pages * PAGE : PAGE] = ones
    taken = time.process_time_ns() - begin
    region.madvise(mmap.MADV_DONTNEED)
    return taken


touch()
print('ready', flush=True)
for line in sys.stdin:
    print(min(touch() for _ in range(int(line))), flush=True)
