"""The template of the demo's sandboxes: imports and warms the libraries an agent uses, then forks sandboxes.

Commands arrive on stdin, answers leave on stdout, one JSON object a line:
    {"fork": ID, "socket": PATH, "procs": FILE}  ->  {"forked": ID, "pid": PID}
A sandbox leads its own session, moves itself into its cgroup by way of FILE (cgroup.procs), connects to the Unix
socket PATH, introduces itself with {"hello": ID, "pid": PID} and then answers tool calls:
    {"tool": NAME, "args": {...}}  ->  {"result": {...}} or {"error": TEXT}
End of input ends the template, and the template's end ends its sandboxes.
"""

import ctypes
import gc
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


def serve(stream, tools) -> None:
    """Answers one tool call after the other until the host hangs up."""
    session = tools.Session()
    for line in stream:
        try:
            call = json.loads(line)
            answer = {"result": session.call(call["tool"], call["args"])}
        except Exception:
            answer = {"error": traceback.format_exc(limit=4)}
        stream.write(json.dumps(answer, sort_keys=True) + "\n")
        stream.flush()


def become_sandbox(order: dict, template: int, tools) -> None:
    os.setsid()
    die_with_parent(template)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(order["procs"], "w") as procs:
        procs.write("0")
    # The host's pipes belong to the template alone: a sandbox that kept them would hide its end.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(order["socket"])
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps({"hello": order["fork"], "pid": os.getpid()}) + "\n")
            stream.flush()
            serve(stream, tools)


def main() -> None:
    host = int(sys.argv[1])
    die_with_parent(host)
    try:
        import tools
    except ImportError as error:
        print(json.dumps({"missing": error.name or "python3", "reason": str(error)}), flush=True)
        return
    tools.warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps sandboxes that end
    gc.collect()
    gc.freeze()  # else the first collection in a sandbox would copy every page that holds an object
    print(json.dumps({"ready": os.getpid()}), flush=True)
    template = os.getpid()
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                become_sandbox(order, template, tools)
                status = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(status)
        print(json.dumps({"forked": order["fork"], "pid": pid}), flush=True)


main()
