"""Tool calls of a data-analysis agent. Each does real work, keeps what it made in the session (an agent's
interpreter does the same), and answers with digests of real bytes, so that one wrong byte of memory shows.

`seed` names the data of the task, equal for every sandbox of a fan-out; `own` names what one attempt does its own way.
"""

import io
import json

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as pyplot
import numpy as np
import pandas as pd

import table_digests  # noqa: F401 (digests of frames and arrays)
from digests import digest, digest_of
from shell import run

CATEGORIES = np.array(["books", "garden", "kitchen", "music", "office", "outdoor", "tools", "toys"])
REGIONS = np.array(["east", "north", "south", "west"])
LEVELS = ["DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR"]
VERBS = ["opened", "closed", "retried", "rejected", "accepted", "queued", "expired", "merged", "moved", "renamed"]
NOUNS = ["request", "session", "invoice", "basket", "payment", "worker", "lease", "upload", "index", "report"]


def orders(seed: int, own: int, rows: int) -> pd.DataFrame:
    """The task's orders, with one row in twenty as this attempt sees it."""

    def draw(rng, n):
        return {
            "user": rng.integers(1, 20_000, n),
            "category": CATEGORIES[rng.integers(0, len(CATEGORIES), n)],
            "region": REGIONS[rng.integers(0, len(REGIONS), n)],
            "price": np.round(rng.gamma(2.0, 18.0, n), 2),
            "quantity": rng.integers(1, 9, n),
        }

    frame = pd.DataFrame(draw(np.random.default_rng(seed), rows))
    frame.insert(0, "order", np.arange(100_000, 100_000 + rows))
    rng = np.random.default_rng(own)
    where = np.sort(rng.choice(rows, rows // 20, replace=False))
    for name, values in draw(rng, len(where)).items():
        frame.loc[where, name] = values
    frame["minute"] = np.arange(rows) * 3 + frame["quantity"]
    return frame


def load(items, seed, own, rows):
    """Receives a CSV file and parses it."""
    text = orders(seed, own, rows).to_csv(index=False)
    frame = pd.read_csv(io.StringIO(text))
    items["csv"] = text.encode()
    items["orders"] = frame
    return {"rows": len(frame), "csv": digest_of(items["csv"]), "frame": digest_of(frame)}


def group(items, seed, own, rows):
    """Totals by category and region, a pivot, and shares joined back to each row."""
    frame = items["orders"]
    value = frame["price"] * frame["quantity"]
    totals = value.groupby([frame["category"], frame["region"]]).agg(["sum", "mean", "max", "count"])
    pivot = frame.pivot_table(index="category", columns="region", values="price", aggfunc="median")
    # What the attempt looks at differs: its own weight for each row.
    weight = 1.0 + (own % 7) / 10.0
    kept = pd.DataFrame({
        "value": value,
        "share": value / value.groupby(frame["category"]).transform("sum"),
        "rank": value.groupby(frame["region"]).rank(method="first"),
        "weighted": value * weight,
        "by_user": value.groupby(frame["user"]).transform("sum"),
    }).round({"value": 2, "share": 6, "weighted": 2, "by_user": 2})
    items[f"group-{own}"] = kept
    return {"totals": digest_of(totals.reset_index()), "pivot": digest_of(pivot.reset_index()), "kept": digest_of(kept)}


def merge(items, seed, own, rows):
    """Joins the orders with the users, whose table the task gives."""
    rng = np.random.default_rng(seed + 1)
    users = pd.DataFrame({
        "user": np.arange(1, 20_000),
        "age": rng.integers(18, 80, 19_999),
        "plan": np.array(["free", "plus", "pro"])[rng.integers(0, 3, 19_999)],
        "score": np.round(rng.normal(50, 12, 19_999), 3),
    })
    limit = 20 + own % 5
    joined = items["orders"].merge(users[users["age"] >= limit], on="user", how="inner")
    joined = joined.sort_values(["age", "order"], kind="stable").reset_index(drop=True)
    items[f"joined-{own}"] = joined
    return {"rows": len(joined), "joined": digest_of(joined)}


def rolling(items, seed, own, rows):
    """Moving statistics of the price over several windows."""
    price = items["orders"]["price"]
    windows = [16, 64, 256, 32 + own % 32]
    kept = pd.DataFrame({f"mean{w}-{i}": price.rolling(w, min_periods=1).mean() for i, w in enumerate(windows)})
    kept["median"] = price.rolling(101, min_periods=1).median()
    kept["std"] = price.rolling(64, min_periods=2).std()
    kept["ewm"] = price.ewm(span=50).mean()
    kept = kept.round(2)
    items[f"rolling-{own}"] = kept
    return {"kept": digest_of(kept)}


def matrix(items, seed, own, rows):
    """Standardised features, their correlation and principal directions."""
    rng = np.random.default_rng(seed + 2)
    frame = items["orders"]
    base = frame[["price", "quantity", "user"]].to_numpy(dtype=np.float64)
    features = np.hstack([base, np.round(base @ rng.normal(size=(3, 5)), 3)])
    features[:, own % 8] = np.sqrt(np.abs(features[:, own % 8]))
    features = np.round((features - features.mean(axis=0)) / features.std(axis=0), 3)
    correlation = np.corrcoef(features, rowvar=False)
    items[f"features-{own}"] = features
    return {"features": digest_of(features), "correlation": digest_of(np.round(correlation, 9))}


def log_lines(seed: int, own: int, count: int) -> list:
    task, attempt = np.random.default_rng(seed + 3), np.random.default_rng(own)
    picks = task.integers(0, 1 << 30, (count, 4))
    differ = attempt.random(count) < 0.1
    picks[differ] = attempt.integers(0, 1 << 30, (int(differ.sum()), 4))
    return [
        f"2026-03-{1 + i * 28 // count:02d}T{i % 24:02d}:{a % 60:02d}:{b % 60:02d} {LEVELS[a % 6]} "
        f"{NOUNS[b % 10]}-{c % 4096:04x} {VERBS[c % 10]} by {NOUNS[d % 10]} {d % 997} after {a % 5000} ms"
        for i, (a, b, c, d) in enumerate(picks.tolist())
    ]


def text(items, seed, own, rows):
    """Reads a log: tokens, an inverted index, the most frequent pairs."""
    lines = log_lines(seed, own, rows // 4)
    index = {}
    pairs = {}
    for number, line in enumerate(lines):
        words = line.split()[1:]
        for word in words:
            index.setdefault(word, []).append(number)
        for pair in zip(words, words[1:]):
            pairs[" ".join(pair)] = pairs.get(" ".join(pair), 0) + 1
    top = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:50]
    items[f"log-{own}"] = {"lines": lines, "index": index}
    return {"lines": digest("\n".join(lines).encode()), "words": len(index), "top": digest_of(top)}


def documents(items, seed, own, rows):
    """Turns orders into nested JSON documents, writes them, reads them back and changes some."""
    frame = items["orders"].iloc[: rows // 10]
    records = [
        {"id": row[0], "user": {"id": row[1], "region": row[3]}, "lines": [{"category": row[2], "price": row[4]}] * row[5]}
        for row in frame.itertuples(index=False, name=None)
    ]
    wire = json.dumps(records, sort_keys=True)
    parsed = json.loads(wire)
    for record in parsed[own % 50 :: 50]:
        record["flag"] = f"checked-{own % 1000}"
    items[f"documents-{own}"] = parsed
    return {"wire": digest_of(wire), "documents": digest_of(parsed)}


COUNT_WORDS = "import sys,collections;print(sorted(collections.Counter(sys.stdin.read().split()).items())[:200])"


def shell(items, seed, own, rows):
    """Runs programs on the data, as an agent's shell does: sort, and a Python of its own."""
    field = 3 + own % 2
    ordered = run(["sort", "-t", ",", "-k", str(field), "-s"], items["csv"])
    counted = run(["python3", "-c", COUNT_WORDS], items["csv"][: 200_000].replace(b",", b" "))
    items[f"sorted-{own}"] = ordered
    return {"sorted": digest(ordered), "counted": digest(counted)}


def plot(items, seed, own, rows):
    """Draws the data to a PNG."""
    frame = items["orders"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 4), dpi=80)
    left.hist(frame["price"], bins=40 + own % 20)
    left.set_title("price")
    by_region = frame.groupby("region")["quantity"].sum()
    right.bar(by_region.index, by_region.to_numpy())
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    pyplot.close(figure)
    items[f"plot-{own}"] = picture.getvalue()
    return {"bytes": len(picture.getvalue()), "png": digest(picture.getvalue())}


def review(items, seed, own, rows):
    """Reads everything the session holds."""
    return {name: digest_of(value) for name, value in sorted(items.items())}


TOOLS = {f.__name__: f for f in (load, group, merge, rolling, matrix, text, documents, shell, plot, review)}


class Session:
    """What one sandbox's interpreter holds from call to call."""

    def __init__(self, id: str, folder: str):
        self.items = {}

    def call(self, tool: str, args: dict) -> dict:
        return TOOLS[tool](self.items, **args)


def warm_up(args: list) -> None:
    """Runs every tool once on little data: lazy imports, fonts and caches then belong to the template."""
    session = Session("template", ".")
    for tool in TOOLS:
        session.call(tool, {"seed": 1, "own": 1, "rows": 400})
