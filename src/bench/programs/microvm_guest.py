#!/usr/bin/python3.11 -Bs
"""First process of a guest: a tool server as rollout.py's, warmed, which answers over a port of the virtual machine.

It says {"ready": true} when it waits for its first call; then the machine's memory is saved. What starts from that goes on
here: it answers tool calls, JSON, one object a line, until the machine is ended.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import traceback

PORT = "/dev/vport0p1"
PROJECT = "/project"
MOUNTS = (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"))


def mount_all() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, path in MOUNTS:
        if libc.mount(kind.encode(), path.encode(), kind.encode(), 0, None) != 0:
            raise OSError(ctypes.get_errno(), f"mount {path}")


def warm_session():
    sys.path.insert(0, "/programs")
    import rollout

    rollout.warm_up([PROJECT, f"{PROJECT}/site", f"{PROJECT}/task.json"])
    # A machine has the files for itself: no view of its own is needed.
    rollout.move_in = lambda root, folder: os.chdir(f"{root}/repo")
    # Inodes are not those that the index was written for; else every `git diff` would read all files.
    subprocess.run(["git", "-C", f"{PROJECT}/repo", "update-index", "-q", "--refresh"], check=True)
    # Else the first collection would write to every page that holds an object, in the runner too.
    gc.collect()
    gc.freeze()
    return rollout.Session("template", "/")


def serve(session, port) -> None:
    for line in port:
        try:
            call = json.loads(line)
            answer = {"result": session.call(call["tool"], call["args"])}
        except Exception:
            answer = {"error": traceback.format_exc(limit=4)}
        say(port, answer)


def say(port, value: dict) -> None:
    data = memoryview(json.dumps(value, sort_keys=True).encode() + b"\n")
    while data:
        data = data[os.write(port.fileno(), data) :]


def main() -> None:
    mount_all()
    session = warm_session()
    with open(PORT, "rb+", buffering=0) as raw, open(raw.fileno(), "rb", closefd=False) as port:
        say(port, {"ready": True})
        serve(session, port)


try:
    main()
except BaseException:
    traceback.print_exc()
finally:
    # The kernel panics without its first process, and the machine then ends.
    sys.stderr.flush()
