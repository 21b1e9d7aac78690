"""The subject of `agentzip bench --micro`: a module of template.py whose sandbox measures its own page faults.

The template is a Python that has run the demo's tools, with a region of pages beside it that are copies of its own
anonymous ones. A sandbox changes words in each page of the region, so that each is its own and resembles a page of
the template; then it is paged out by whoever is measured, and reads it back. Everything else it has is locked in
memory: what it measures is the fault of a page of the region, not of the interpreter that measures.
"""

import ctypes
import gc
import hashlib
import mmap
import time

import numpy as np

PAGE = 4096
WORD = 8
WORDS = PAGE // WORD
MCL_CURRENT, MCL_FUTURE = 1, 2
# Bits of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
FILE = np.uint64(1 << 61)
SWAPPED = np.uint64(1 << 62)
PRESENT = np.uint64(1 << 63)
# Most words that are changed in a page.
MOST_CHANGED = 512
# Faults before the timed ones: code and tables of the kernel and of the pager are then in the processor's caches.
WARM_FAULTS = 64

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, call: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), call)


class Region:
    """Anonymous private memory of whole pages, without huge ones: each fault is the fault of a page."""

    def __init__(self, pages: int):
        self.pages = pages
        self.memory = mmap.mmap(-1, pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory.madvise(mmap.MADV_NOHUGEPAGE)
        self.bytes = np.frombuffer(self.memory, dtype=np.uint8)
        self.words = self.bytes.view(np.uint64)
        self.address = self.bytes.ctypes.data

    def taken(self) -> np.ndarray:
        """For each page whether its memory is taken: mapped, or in the swap cache (mm/mincore.c)."""
        taken = np.zeros(self.pages, dtype=np.uint8)
        address = ctypes.c_void_p(self.address)
        length = ctypes.c_size_t(self.pages * PAGE)
        check(libc.mincore(address, length, ctypes.c_void_p(taken.ctypes.data)), "mincore")
        return (taken & 1).astype(bool)

    def entries(self) -> np.ndarray:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(self.address // PAGE * 8)
            return np.frombuffer(file.read(self.pages * 8), dtype=np.uint64)


def own_pages() -> np.ndarray:
    """Copies of this process's anonymous pages that are not zero, in address order."""
    found = []
    with open("/proc/self/maps") as maps:
        mappings = [line.split() for line in maps]
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap, open("/proc/self/mem", "rb", buffering=0) as memory:
        for span, permissions, *rest in mappings:
            # [vvar], [vdso] and [vsyscall] are the kernel's.
            if permissions[0] != "r" or permissions[3] != "p" or rest[-1].startswith("[v"):
                continue
            start, end = (int(text, 16) for text in span.split("-"))
            pagemap.seek(start // PAGE * 8)
            entries = np.frombuffer(pagemap.read((end - start) // PAGE * 8), dtype=np.uint64)
            anonymous = np.flatnonzero((entries & PRESENT != 0) & (entries & FILE == 0))
            for run in np.split(anonymous, np.flatnonzero(np.diff(anonymous) != 1) + 1):
                if len(run) > 0:
                    memory.seek(start + int(run[0]) * PAGE)
                    found.append(memory.read(len(run) * PAGE))
    pages = np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, PAGE)
    return pages[pages.any(axis=1)]


def warm_up(args: list) -> None:
    """`args`: pages of the region, seed. Pages repeat in an order of their own when the interpreter has too few."""
    import tools

    global region
    pages, seed = int(args[0]), int(args[1])
    tools.warm_up([])
    gc.collect()
    source = own_pages()
    rng = np.random.default_rng(seed)
    region = Region(pages)
    target = region.bytes.reshape(pages, PAGE)
    for at in range(0, pages, len(source)):
        part = rng.permutation(source)[: pages - at]
        target[at : at + len(part)] = part


class Session:
    """A sandbox: its copy of the region, and what it finds there. Times are nanoseconds."""

    def __init__(self, id: str, folder: str):
        gc.disable()
        # Locking copies what is shared with the template, the region too, which is then let go again.
        check(libc.mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall")
        check(libc.munlock(ctypes.c_void_p(region.address), ctypes.c_size_t(region.pages * PAGE)), "munlock")

    def call(self, tool: str, args: dict):
        return getattr(self, f"do_{tool}")(**args)

    def do_change(self, seed: int) -> dict:
        """
        Changes 1 to 512 words of each page, log-uniformly distributed: counters that moved, pointers, floating-point
        numbers. Returns where the region is and the digest of all its bytes.
        """
        rng = np.random.default_rng(seed)
        counts = np.exp(rng.uniform(0, np.log(MOST_CHANGED + 1), region.pages)).astype(np.int64)
        at = np.repeat(np.arange(region.pages), counts) * WORDS + rng.integers(0, WORDS, counts.sum())
        words = region.words
        kinds = rng.integers(0, 4, len(at))
        moved = words[at] + rng.integers(1, 4, len(at)).astype(np.uint64)
        pointers = np.uint64(0x7F00_0000_0000) + rng.integers(0, 1 << 24, len(at)).astype(np.uint64) * np.uint64(16)
        numbers = np.round(rng.gamma(2.0, 18.0, len(at)), 2).view(np.uint64)
        words[at] = np.choose(kinds, [moved, moved, pointers, numbers])
        empty = ~region.bytes.reshape(-1, PAGE).any(axis=1)  # the kernel writes no zero page to the device
        words[np.flatnonzero(empty) * WORDS] = 1
        return {"address": region.address, "pages": region.pages, "digest": self.do_digest()}

    def do_digest(self) -> str:
        return hashlib.sha256(region.bytes).hexdigest()

    def do_state(self) -> dict:
        """Pages by where they are; `cached` ones are out by the page table, but in memory still."""
        entries, taken = region.entries(), region.taken()
        swapped = entries & SWAPPED != 0
        return {
            "present": int((entries & PRESENT != 0).sum()),
            "cached": int((swapped & taken).sum()),
            "out": int((swapped & ~taken).sum()),
        }

    def do_cached(self) -> list:
        """Runs of pages that are out by the page table and still in memory: [first, pages]."""
        pages = np.flatnonzero((region.entries() & SWAPPED != 0) & region.taken())
        runs = np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1)
        return [[int(run[0]), len(run)] for run in runs if len(run) > 0]

    def do_faults(self, seed: int, count: int) -> dict:
        """
        Reads one byte of each of `count` random pages that are out. Pages that the kernel has brought into the swap
        cache meanwhile are passed over. `timing`: what the same read takes of a page that is mapped.
        """
        out = np.flatnonzero((region.entries() & SWAPPED != 0) & ~region.taken())
        chosen = np.random.default_rng(seed).permutation(out).tolist()
        memory, clock, mincore = region.memory, time.perf_counter_ns, libc.mincore
        taken = ctypes.c_ubyte()
        where, length = ctypes.byref(taken), ctypes.c_size_t(PAGE)
        faults, mapped = [0] * (count + WARM_FAULTS), [0] * (count + WARM_FAULTS)
        done = passed = 0
        for page in chosen:
            if done == len(faults):
                break
            offset = page * PAGE
            mincore(ctypes.c_void_p(region.address + offset), length, where)
            if taken.value & 1:
                passed += 1
                continue
            from_ = clock()
            memory[offset]
            between = clock()
            memory[offset]
            mapped[done] = clock() - between
            faults[done] = between - from_
            done += 1
        return {"ns": faults[WARM_FAULTS:done], "timing": mapped[WARM_FAULTS:done], "passed": passed}

    def do_sequential(self) -> dict:
        """Reads one byte of every page, in order."""
        from_ = time.perf_counter_ns()
        region.bytes[::PAGE].max()
        return {"ns": time.perf_counter_ns() - from_}
