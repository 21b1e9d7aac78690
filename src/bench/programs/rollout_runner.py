"""The runner of a sandbox: a long-lived interpreter, driven by the tool server, in which the project and its tests
live, as in a notebook kernel. Requests and answers are JSON, one object a line, over a socket pair."""

import ctypes
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

from rollout_digest import digest, normal, spell

PR_SET_PDEATHSIG = 1
OUTPUT_LINES = 60
# Only what a project's tests need; plugins that write files, hook signals or time things stay out.
PYTEST = ["-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:logging", "-p", "no:junitxml", "-p", "no:pastebin"]
PYTEST += ["-p", "no:threadexception", "-p", "no:unraisableexception", "-c", os.devnull, "-q", "--tb=short"]
PYTEST += ["--disable-warnings", "--capture=sys", "--color=no"]


class Reports:
    """Keeps what pytest reports of a run."""

    def __init__(self):
        self.reports = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.reports.append(report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.reports.append(report)


class Runner:
    def __init__(self, packages: list, root: str):
        #: the project's own, and libraries that hold on to its classes
        self.packages = packages
        self.root = root
        self.namespace = {"__name__": "__runner__"}
        self.history = []

    def forget(self) -> None:
        """Drops the project's modules, its tests among them: the next use imports what the files say now."""
        for name in list(sys.modules):
            if name.partition(".")[0] in self.packages:
                del sys.modules[name]
        importlib.invalidate_caches()
        gc.collect()

    def test(self, args: list, changed: bool) -> dict:
        import pytest

        if changed:
            self.forget()
        plugin, output = Reports(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            status = pytest.main([*PYTEST, "--rootdir", self.root, *args], plugins=[plugin])
        text = normal(output.getvalue())
        outcomes = {}
        for report in plugin.reports:
            outcomes[report.outcome] = outcomes.get(report.outcome, 0) + 1
        failed = [report.nodeid for report in plugin.reports if report.outcome == "failed"]
        self.history.append({"args": args, "reports": plugin.reports, "text": text})
        return {
            "status": int(status),
            "outcomes": outcomes,
            "failed": failed[:20],
            "digest": digest(*map(spell_report, plugin.reports)),
            "tail": text.splitlines()[-OUTPUT_LINES:] if status else text.splitlines()[-1:],
        }

    def script(self, code: str, changed: bool) -> dict:
        """Runs code in the namespace that stays, as a cell of a notebook."""
        if changed:
            self.forget()
        output = io.StringIO()
        error = None
        with redirect_stdout(output), redirect_stderr(output):
            try:
                exec(compile(code, "<script>", "exec"), self.namespace)
            except Exception:
                error = normal(traceback.format_exc(limit=-3))
        text = normal(output.getvalue())
        self.history.append({"code": code, "text": text})
        return {"output": text.splitlines()[-OUTPUT_LINES:], "error": error, "names": self.names()}

    def names(self) -> dict:
        """Digest of every value the namespace holds."""
        kept = {name: value for name, value in self.namespace.items() if not name.startswith("__")}
        return {name: digest(spell(value)) for name, value in sorted(kept.items())}

    def review(self, changed: bool) -> dict:
        """Digests what this process holds: results so far, values, and the code of the project."""
        parts = []
        for entry in self.history:
            parts.append(entry["text"])
            parts.extend(map(spell_report, entry.get("reports", ())))
        code = [
            f"{name} {spell_code(vars(module))}"
            for name, module in sorted(sys.modules.items())
            if name.partition(".")[0] in self.packages and module is not None
        ]
        return {"history": digest(*parts), "names": self.names(), "code": digest(*code), "modules": len(code)}


def spell_report(report) -> str:
    return normal(f"{report.nodeid} {report.outcome} {report.sections} {report.longrepr}")


def spell_code(names: dict, depth: int = 0) -> str:
    parts = []
    for name, value in names.items():
        code = getattr(value, "__code__", None)
        if code is not None and hasattr(code, "co_code"):
            parts.append(f"{name} {code.co_code.hex()} {code.co_names} {code.co_firstlineno}")
        elif isinstance(value, type) and depth < 2:
            parts.append(f"{name} {spell_code(dict(vars(value)), depth + 1)}")
        elif isinstance(value, (str, int, float, bytes)):
            parts.append(f"{name} {value!r}")
    return normal(";".join(parts))


class RunnerProcess:
    """The runner as the tool server sees it. Forked from the warmed image, so it starts with what the template has."""

    def __init__(self, packages: list, root: str):
        server = os.getpid()
        here, there = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == server:
                    descriptor = os.dup2(there.fileno(), 3)
                    os.closerange(4, 256)  # the host's socket belongs to the tool server
                    work(socket.socket(fileno=descriptor), Runner(packages, root))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        there.close()
        self.stream = here.makefile("rw", encoding="utf-8")
        here.close()

    def ask(self, request: str, **args) -> dict:
        self.stream.write(json.dumps({"request": request, "args": args}) + "\n")
        self.stream.flush()
        line = self.stream.readline()
        if not line:
            raise RuntimeError("the runner ended")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]


def work(connection: socket.socket, runner: Runner) -> None:
    stream = connection.makefile("rw", encoding="utf-8")
    for line in stream:
        order = json.loads(line)
        try:
            answer = {"result": getattr(runner, order["request"])(**order["args"])}
        except Exception:
            answer = {"error": traceback.format_exc(limit=6)}
        stream.write(json.dumps(answer) + "\n")
        stream.flush()
