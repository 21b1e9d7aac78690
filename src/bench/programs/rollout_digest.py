"""Digests that are equal for equal work: whatever holds addresses, times or ids of processes is stripped first."""

import hashlib
import re

ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
SECONDS = re.compile(r"\b\d+\.\d+ ?(s|seconds|ms)\b")
MAX_DEPTH = 12


def normal(text: str) -> str:
    return SECONDS.sub("TIME", ADDRESS.sub("ADDRESS", text))


def digest(*parts: str) -> str:
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part.encode("utf-8", "surrogatepass"))
        total.update(b"\0")
    return total.hexdigest()


def spell(value, depth: int = 0) -> str:
    """A text that differs when a value differs: containers with all they hold, sets in order, other objects by their
    fields, whatever has neither by its normalised repr."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if depth > MAX_DEPTH:
        return type(value).__name__
    inner = depth + 1
    if isinstance(value, dict):
        return "{%s}" % ",".join(f"{spell(k, inner)}:{spell(v, inner)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(spell(item, inner) for item in value)
    if isinstance(value, (set, frozenset)):
        return "{%s}" % ",".join(sorted(spell(item, inner) for item in value))
    try:
        return f"{type(value).__name__} {normal(repr(value))}"
    except Exception as error:  # a class of the project, as attempts have left it
        return f"{type(value).__name__} {type(error).__name__}"
