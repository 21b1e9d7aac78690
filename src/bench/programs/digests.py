"""Digests of what a session keeps: of every byte a value holds, so that one wrong byte of memory shows. Standard
library only; table_digests.py adds the kinds of numpy, pandas and scikit-learn.

No digest depends on addresses, on the order of a set or on Python's string hashes.
"""

import functools
import hashlib
import json


def digest(*parts: bytes) -> str:
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part)
    return total.hexdigest()


@functools.singledispatch
def digest_of(value) -> str:
    """Of what JSON can hold; inside it also of other kinds that are registered here."""
    return digest(json.dumps(value, sort_keys=True, default=_inner).encode())


def _inner(value) -> str:
    if digest_of.dispatch(type(value)) is digest_of.dispatch(object):
        raise TypeError(f"no digest for {type(value).__name__}")
    return digest_of(value)


@digest_of.register
def _(value: bytes) -> str:
    return digest(value)


@digest_of.register
def _(value: str) -> str:
    return digest(value.encode())


@digest_of.register(set)
@digest_of.register(frozenset)
def _(value) -> str:
    return digest_of(sorted(value))
