"""A session that keeps what its tools make, as an interpreter keeps its variables, and the tools that sessions of every
kind have: the arrival of the data set, a shell over its file, and the reading of everything."""

import os
import sys
from random import Random

from digests import digest_of
from schemas import FILE, SCHEMAS
from shell import run

MAKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "datasets.py")


class Notebook:
    """What one sandbox's interpreter holds from call to call. A program's Session names its `tools`."""

    tools = {}

    def __init__(self, id: str, folder: str):
        self.folder = folder
        self.items = {}
        self.schema = None

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def keep(self, name: str, value) -> str:
        """Binds a new variable; returns its name."""
        variable = f"{name}_{len(self.items)}"
        self.items[variable] = value
        return variable

    def call(self, tool: str, args: dict):
        return self.tools[tool](self, **args)


def fetch(session, kind, seed, rows):
    """Receives the data set: another process writes it, as curl writes a download."""
    session.schema = SCHEMAS[kind]
    data = run([sys.executable, "-B", "-s", MAKER, kind, str(seed), str(rows)])
    with open(session.path(FILE), "wb") as file:
        file.write(data)
    return {"bytes": len(data), "file": digest_of(data)}


def shell(session, seed):
    """sort, grep and awk over the file; keeps their output as text, as a terminal's is kept."""
    pick, schema, folder = Random(seed), session.schema, session.folder
    place = {name: 1 + number for number, name in enumerate(schema.columns)}
    by = place[pick.choice([schema.entity, *schema.categories, *schema.numbers])]
    word = pick.choice(["value", "object", "function", "class", "name"])
    group, total = place[pick.choice(schema.categories)], place[pick.choice(schema.numbers)]
    # awk goes through an array in no order of its own: its lines are sorted.
    each = f"NR > 1 {{ count[${group}]++; sum[${group}] += ${total} }}"
    sums = each + ' END { for (key in count) printf "%s %d %.2f\\n", key, count[key], sum[key] }'
    kept = {
        "sorted": run(["sort", "-t", ",", f"-k{by},{by}", "-s", FILE], folder=folder).decode(),
        "lines": run(["grep", "-n", "-m", "800", word, FILE], folder=folder, accept=(0, 1)).decode(),
        "sums": run(["sort"], run(["awk", "-F,", sums, FILE], folder=folder)).decode(),
    }
    session.keep("shell", kept)
    return {name: digest_of(text) for name, text in kept.items()}


def review(session):
    """Reads everything the session holds."""
    return {name: digest_of(value) for name, value in sorted(session.items.items())}


def by_name(*tools) -> dict:
    return {tool.__name__: tool for tool in tools}
