"""Tool calls of an agent that works on text and documents with Python's standard library alone: JSON, SQL, XML, HTML,
regular expressions. Its memory is small objects on Python's heap, where analysis.py's is arrays.

A session keeps what each step made: parsed records (a dict a row, numbers as the file writes them), the file's text,
nested documents, an inverted index, a database in memory, trees, pages, an archive (which does not compress again).
Answers are digests of kept memory, and depend neither on addresses nor on Python's string hashes.
"""

import collections
import csv
import difflib
import gzip
import html
import json
import re
import sqlite3
import string
import tempfile
from html.parser import HTMLParser
from random import Random
from xml.etree import ElementTree

from digests import digest, digest_of
from notebook import Notebook, by_name, fetch, review, shell
from schemas import FILE

WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
PAGE = string.Template("<article id='$key'><h2>$title</h2><p>$text</p><ul>$fields</ul></article>\n")


@digest_of.register
def _(value: ElementTree.Element) -> str:
    return digest(ElementTree.tostring(value))


@digest_of.register
def _(value: sqlite3.Connection) -> str:
    return digest("\n".join(value.iterdump()).encode())


def number(text: str):
    """A field as JSON would have it; None when it is empty."""
    if text == "":
        return None
    return float(text) if "." in text else int(text)


def read(session):
    """Parses the file into records; keeps its text too."""
    with open(session.path(FILE), encoding="utf-8", newline="") as file:
        text = file.read()
    records = list(csv.DictReader(text.splitlines()))
    for record in records:
        for name in (session.schema.key, *session.schema.numbers, session.schema.target):
            record[name] = number(record[name])
    session.items["text"], session.items["records"] = text, records
    return {"records": len(records), "digest": digest_of(records)}


def index(session, seed):
    """An inverted index of the comments, and the most frequent pairs of words."""
    postings, pairs = {}, collections.Counter()
    for row, record in enumerate(session.some(seed, 8000)):
        words = WORD.findall(record[session.schema.text].lower())
        for word in words:
            postings.setdefault(word, []).append(row)
        pairs.update(zip(words, words[1:]))
    top = sorted(((n, *pair) for pair, n in pairs.items() if n > 2), key=lambda row: (-row[0], row[1:]))
    session.keep("index", {"postings": postings, "pairs": top})
    return {"words": len(postings), "pairs": len(top), "digest": digest_of(postings)}


def nest(session, seed):
    """Groups records into a document an entity, through JSON and back, and changes some."""
    schema = session.schema
    documents = {}
    for record in session.some(seed, 6000):
        document = documents.setdefault(record[schema.entity], {"id": record[schema.entity], "events": []})
        facts = {name: record[name] for name in (*schema.categories, *schema.numbers)}
        document["events"].append({"key": record[schema.key], "at": record[schema.time], "facts": facts})
    wire = json.dumps(list(documents.values()))
    parsed = json.loads(wire)
    for document in parsed[seed % 10 :: 10]:
        document["reviewed"] = {"by": f"agent-{seed % 100}", "events": len(document["events"])}
    session.keep("nest", parsed)
    return {"wire": digest_of(wire), "documents": digest_of(parsed)}


def query(session, seed):
    """Loads records into a database in memory, with an index, and asks it."""
    schema, pick = session.schema, Random(seed)
    database = sqlite3.connect(":memory:")
    columns = ", ".join(f'"{name}"' for name in schema.columns)
    database.execute(f"create table facts ({columns})")
    marks = ", ".join("?" * len(schema.columns))
    rows = [tuple(record.values()) for record in session.some(seed, 9000)]
    database.executemany(f"insert into facts values ({marks})", rows)
    category, measure = pick.choice(schema.categories), pick.choice(schema.numbers)
    database.execute(f'create index by_category on facts ("{category}", "{measure}")')
    answer = database.execute(
        f'select "{category}", count(*), round(avg("{measure}"), 3), max("{measure}") from facts group by 1 order by 1'
    ).fetchall()
    session.keep("query", {"database": database, "answer": answer})
    return {"answer": answer, "database": digest_of(database)}


def extract(session, seed):
    """Takes days, numbers and long words out of the text with regular expressions."""
    lines = session.items["text"].splitlines()
    start = seed % (len(lines) // 2)
    part = "\n".join(lines[start : start + 8000])
    days = collections.Counter(re.findall(r",(\d{4}-\d\d-\d\d) ", part))
    spans = [[found.start(), found.group(1)] for found in re.finditer(r"[ ,]([a-z]{9,})\b", part)]
    decimals = [float(found) for found in re.findall(r",(-?\d+\.\d+)(?=,)", part)]
    session.keep("extract", {"days": dict(days), "spans": spans, "decimals": decimals})
    return {"days": len(days), "spans": digest_of(spans), "decimals": digest_of(decimals)}


class Outline(HTMLParser):
    """What a page holds, as nested lists."""

    def __init__(self):
        super().__init__()
        self.stack = [[]]

    def handle_starttag(self, tag, attrs):
        self.stack.append([tag, dict(attrs)])

    def handle_endtag(self, tag):
        done = self.stack.pop()
        self.stack[-1].append(done)

    def handle_data(self, data):
        if data.strip():
            self.stack[-1].append(data)


def render(session, seed):
    """Renders records as HTML and reads the page back."""
    schema = session.schema
    fields = (*schema.categories, *schema.numbers)
    page = "".join(
        PAGE.substitute(
            key=record[schema.key],
            title=html.escape(f"{record[schema.entity]} {record[schema.time]}"),
            text=html.escape(record[schema.text]),
            fields="".join(f"<li>{name}: {record[name]}</li>" for name in fields),
        )
        for record in session.some(seed, 1500)
    )
    outline = Outline()
    outline.feed(page)
    session.keep("render", {"page": page, "outline": outline.stack[0]})
    return {"page": digest_of(page), "outline": digest_of(outline.stack[0])}


def tree(session, seed):
    """Builds an XML tree of records, writes it and parses it again."""
    root = ElementTree.Element("facts", schema=session.schema.key)
    for record in session.some(seed, 3000):
        fact = ElementTree.SubElement(root, "fact", key=str(record[session.schema.key]))
        for name, value in record.items():
            ElementTree.SubElement(fact, name).text = "" if value is None else str(value)
    written = ElementTree.tostring(root, encoding="unicode")
    parsed = ElementTree.fromstring(written)
    session.keep("tree", parsed)
    return {"written": digest_of(written), "tree": digest_of(parsed)}


def revise(session, seed):
    """Edits a text a few times and keeps the versions and what changed between them."""
    pick = Random(seed)
    versions = [[record[session.schema.text] for record in session.some(seed, 500)]]
    changes = []
    for _ in range(3):
        lines = list(versions[-1])
        for _ in range(25):
            place = pick.randrange(len(lines))
            lines[place] = " ".join(reversed(lines[place].split())) if pick.random() < 0.7 else lines[place].upper()
        changes.append("\n".join(difflib.unified_diff(versions[-1], lines, lineterm="")))
        versions.append(lines)
    session.keep("revise", {"versions": versions, "changes": changes})
    return {"changes": digest_of(changes), "last": digest_of(versions[-1])}


def archive(session, seed):
    """Packs a part of the text, as an agent does before it sends a file."""
    text = session.items["text"]
    start = seed % (len(text) // 2)
    packed = gzip.compress(text[start : start + 1_500_000].encode(), compresslevel=6, mtime=0)
    session.keep("archive", packed)
    return {"bytes": len(packed), "packed": digest_of(packed)}


class Session(Notebook):
    tools = by_name(fetch, read, index, nest, query, extract, render, tree, revise, archive, shell, review)

    def some(self, seed: int, count: int) -> list:
        """`count` records in a row, by `seed`; all when there are fewer."""
        records = self.items["records"]
        start = seed % max(len(records) - count, 1)
        return records[start : start + count]


def warm_up(args: list) -> None:
    """Runs every tool once on little data: lazy imports and caches then belong to the template."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session("template", folder)
        session.call("fetch", {"kind": "sales", "seed": 1, "rows": 600})
        session.call("read", {})
        for tool in Session.tools:
            if tool not in ("fetch", "read", "review"):
                session.call(tool, {"seed": 1})
        session.call("review", {})
