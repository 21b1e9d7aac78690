"""The sandbox of a coding agent at work on one Python project: a tool server, and a runner that it drives.

The template imports the project, what its tests need, pytest and the parser, and runs a few tests. A sandbox is forked
from it; it links the template's checkout into its own folder, mounts that over the path of the template's (in a mount
namespace of its own, as a container would, so that all sandboxes see the same paths), and forks its runner from the
same warmed image. Both keep what such processes keep: the server the files it has opened, their syntax trees, symbols
and uses, older versions of what was edited and all it has answered; the runner the project's modules, test modules,
reports of all test runs and the values of scripts.

Arguments: the project's folder (with repo/ and tmp/), the folder with its dependencies, its task set (JSON).
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys

from rollout_digest import digest

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
#: An answer shows at most so many lines; the rest is in the digest.
SHOWN_LINES = 80
#: A search for uses opens at most so many files, as the agent's own patience ends.
MOST_FILES = 8

#: What warm_up made and sandboxes inherit.
warmed: dict = {}


def warm_up(args: list) -> None:
    root, site, task_file = args
    # Nothing of the host but the standard library: what the sandboxes hold must not depend on what is installed.
    sys.path[:] = [path for path in sys.path if not path.rstrip("/").endswith("-packages")]
    sys.path[1:1] = [f"{root}/repo", site]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["TMPDIR"] = f"{root}/tmp"
    os.environ["GIT_OPTIONAL_LOCKS"] = "0"
    with open(task_file, encoding="utf-8") as file:
        task = json.load(file)
    os.chdir(f"{root}/repo")
    import rollout_index
    import rollout_runner

    index = rollout_index.CodeIndex()
    runner = rollout_runner.Runner(task["packages"] + task["holders"], f"{root}/repo")
    for name in task["imports"]:
        __import__(name)
    result = runner.test(task["warm"]["tests"], False)
    if result["outcomes"].get("passed", 0) == 0:
        raise RuntimeError(f"the template's tests failed: {result}")
    for path in task["warm"]["files"]:
        index.errors(path)
    warmed.update(root=root, task=task)
    os.chdir("/")  # a sandbox mounts over the folder


def move_in(root: str, folder: str) -> None:
    """Makes `folder` this process's `root`, with a checkout that shares unchanged files with the template's."""
    os.makedirs(f"{folder}/tmp")
    shutil.copytree(f"{root}/repo", f"{folder}/repo", symlinks=True, copy_function=link_or_copy)
    libc = ctypes.CDLL(None, use_errno=True)
    steps = (
        lambda: libc.unshare(CLONE_NEWNS),
        lambda: libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None),
        lambda: libc.mount(folder.encode(), root.encode(), None, MS_BIND, None),
    )
    for step in steps:
        if step() != 0:
            raise OSError(ctypes.get_errno(), "the sandbox's own mount failed")
    os.chdir(f"{root}/repo")


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


class Session:
    """The tool server."""

    def __init__(self, id: str, folder: str):
        from rollout_index import CodeIndex
        from rollout_runner import RunnerProcess

        self.root, self.task = warmed["root"], warmed["task"]
        move_in(self.root, os.path.realpath(folder))
        self.runner = RunnerProcess(self.task["packages"] + self.task["holders"], f"{self.root}/repo")
        self.index = CodeIndex()
        self.changed = False
        self.versions: dict = {}
        self.answers: list = []

    def call(self, tool: str, args: dict) -> dict:
        result = TOOLS[tool](self, **args)
        self.answers.append(json.dumps(result, sort_keys=True))
        return result

    def list(self, path: str) -> dict:
        entries = git("ls-files", "--", path).splitlines()
        return {"files": len(entries), "digest": digest(*entries), "first": entries[:SHOWN_LINES]}

    def grep(self, pattern: str, path: str) -> dict:
        found = git("grep", "-n", "-E", "-e", pattern, "--", path, missing=1).splitlines()
        return {"matches": len(found), "digest": digest(*found), "first": found[:SHOWN_LINES]}

    def read(self, path: str, start: int) -> dict:
        """Shows a window of the file and keeps all of it, parsed."""
        file = self.index.open(path)
        window = file.lines[start - 1 : start - 1 + SHOWN_LINES]
        near = [s for s in file.symbols if start <= s[2] < start + SHOWN_LINES]
        return {"lines": len(file.lines), "window": window, "symbols": near, "digest": file.digest()}

    def outline(self, path: str) -> dict:
        file = self.index.open(path)
        return {"symbols": [s[:3] for s in file.symbols][:SHOWN_LINES], "digest": file.digest()}

    def references(self, name: str, path: str) -> dict:
        paths = git("grep", "-l", "-w", "-e", name, "--", f"{path}/*.py", missing=1).splitlines()
        found = self.index.references(name, sorted(paths)[:MOST_FILES])
        total = sum(map(len, found.values()))
        return {"files": len(paths), "uses": total, "found": {p: uses[:10] for p, uses in found.items()}}

    def edit(self, path: str, old: str, new: str) -> dict:
        """Replaces the one place where `old` stands."""
        text = self.index.open(path).text
        if text.count(old) != 1:
            raise ValueError(f"{path}: the text to replace stands there {text.count(old)} times")
        self.versions.setdefault(path, []).append(text)
        # A file of its own, then the name: the old one is the template's too.
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        os.replace(f"{path}.new", path)
        self.changed = True
        return {"errors": self.index.errors(path), "digest": self.index.files[path].digest()}

    def test(self, args: list) -> dict:
        return self.run("test", args=args)

    def script(self, code: str) -> dict:
        return self.run("script", code=code)

    def diff(self) -> dict:
        text = git("diff", "--no-color")
        return {"lines": text.splitlines()[: 2 * SHOWN_LINES], "digest": digest(text)}

    def review(self) -> dict:
        """Reads back everything both processes hold."""
        older = [f"{path} {version}" for path, texts in sorted(self.versions.items()) for version in texts]
        return {
            "index": self.index.digest(),
            "versions": digest(*older),
            "answers": digest(*self.answers),
            "runner": self.run("review"),
        }

    def run(self, request: str, **args) -> dict:
        answer = self.runner.ask(request, changed=self.changed, **args)
        self.changed = False
        return answer


TOOLS = {
    name: vars(Session)[name]
    for name in ("list", "grep", "read", "outline", "references", "edit", "test", "script", "diff", "review")
}


def git(*command: str, missing: int = 0) -> str:
    """Output of a git command; exit code `missing` means that it found nothing."""
    done = subprocess.run(["git", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, missing):
        raise RuntimeError(f"git {command[0]}: {done.stderr.strip()}")
    return done.stdout
