"""Programs that tools run, as an agent's shell does. Sorting is by bytes: results must not depend on the locale."""

import subprocess

ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}


def run(command: list, data: bytes = None, folder: str = None, accept: tuple = (0,)) -> bytes:
    """Output of a program in `folder`, or here. Fails when its exit status is none of `accept`."""
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=folder)
    if done.returncode not in accept:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout
