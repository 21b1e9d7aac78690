"""Runs a module of this folder as a program of the bench (../program.ts says the protocol):

    python3 -B -s template.py MODULE [ARGS...] HOST_PID

The module has `warm_up(args: list[str])`, which imports and warms what its sandboxes use, and a class
`Session(id: str, folder: str)` whose `call(tool: str, args: dict)` answers a tool call with what JSON can hold.

Commands arrive on stdin, answers leave on stdout, one JSON object a line:
    {"fork": ID, "socket": PATH, "procs": FILE, "folder": DIR}  ->  {"forked": ID, "pid": PID}
    {"become": ID, "socket": PATH, "procs": FILE, "folder": DIR}: this process becomes the sandbox itself
A sandbox leads its own session, moves itself into its cgroup by way of FILE (cgroup.procs), works in DIR, connects to
the Unix socket PATH, introduces itself with {"hello": ID, "pid": PID} and then answers tool calls:
    {"tool": NAME, "args": {...}}  ->  {"result": {...}} or {"error": TEXT}
End of input ends the template, and the template's end ends its sandboxes.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request took effect
        os._exit(1)


def serve(stream, session) -> None:
    """Answers one tool call after the other until the host hangs up."""
    for line in stream:
        try:
            call = json.loads(line)
            answer = {"result": session.call(call["tool"], call["args"])}
        except Exception:
            answer = {"error": traceback.format_exc(limit=4)}
        stream.write(json.dumps(answer, sort_keys=True) + "\n")
        stream.flush()


def become_sandbox(id: str, order: dict, module) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(order["procs"], "w") as procs:
        procs.write("0")
    os.chdir(order["folder"])
    # The host's pipes belong to the template alone: a sandbox that kept them would hide its end.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(order["socket"])
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps({"hello": id, "pid": os.getpid()}) + "\n")
            stream.flush()
            serve(stream, module.Session(id, order["folder"]))


def fork_sandbox(order: dict, module) -> int:
    template = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    status = 1
    try:
        os.setsid()
        die_with_parent(template)
        become_sandbox(order["fork"], order, module)
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    name, args, host = sys.argv[1], sys.argv[2:-1], int(sys.argv[-1])
    die_with_parent(host)
    try:
        module = importlib.import_module(name)
        module.warm_up(args)
    except ImportError as error:
        library = error.name or "python3"
        package = "python3" if error.name is None else f"python3-{library.split('.')[0]}"
        print(json.dumps({"missing": library, "reason": str(error), "package": package}), flush=True)
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps sandboxes that end
    gc.collect()
    gc.freeze()  # else the first collection in a sandbox would copy every page that holds an object
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "become" in order:
            become_sandbox(order["become"], order, module)
            return
        print(json.dumps({"forked": order["fork"], "pid": fork_sandbox(order, module)}), flush=True)


main()
