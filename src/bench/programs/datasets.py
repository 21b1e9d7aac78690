"""Writes a data set of schemas.py as CSV to standard output:

    python3 -B -s datasets.py KIND SEED ROWS

A program of its own: a session receives its file like a download, and keeps nothing of the making. Text is English
prose by a word chain over the help topics that come with Python: frequencies and neighbourhoods of real words, but no
sentence twice, which would make the text compress better than what people write.
"""

import re
import sys
from pydoc_data import topics

import numpy as np

from schemas import SCHEMAS

START = np.datetime64("2025-01-01T00:00:00")
MISSING = 0.02
REPEATED = 0.004


def ranks(rng, size: int, count: int, steepness: float) -> np.ndarray:
    """Numbers below `size` drawn with frequencies that fall as 1 / rank ** steepness (Zipf)."""
    weights = 1.0 / np.arange(1, size + 1) ** steepness
    return rng.choice(size, count, p=weights / weights.sum())


def skewed(rng, names: list, count: int, steepness: float = 1.0) -> np.ndarray:
    return np.array(names, dtype=object)[ranks(rng, len(names), count, steepness)]


def times(rng, count: int, mean_seconds: float) -> np.ndarray:
    """Seconds from the start, going forward; twice as many by day as by night."""
    steps = rng.exponential(mean_seconds, count)
    seconds = np.cumsum(steps)
    night = (seconds % 86_400) < 6 * 3600
    return np.cumsum(np.where(night, steps * 2, steps)).astype(np.int64)


def prose(rng, count: int, least: int, most: int) -> list:
    """`count` texts of `least` to `most` words."""
    source = " ".join(topics.topics[name] for name in sorted(topics.topics))
    words = re.findall(r"(?<!\S)[A-Za-z][\w'-]*[.;:]?(?!\S)", source)
    number = {}
    chain = np.array([number.setdefault(word, len(number)) for word in words])
    follow = np.argsort(chain[:-1], kind="stable") + 1
    after = np.bincount(chain[:-1], minlength=len(number))
    first = np.cumsum(after) - after
    lengths = rng.integers(least, most + 1, count)
    word = chain[rng.integers(0, len(chain) - 1, count)]
    drawn = np.empty((most, count), dtype=np.int64)
    for row in drawn:
        row[:] = word
        pick = first[word] + (rng.random(count) * after[word]).astype(np.int64)
        word = chain[follow[np.minimum(pick, len(follow) - 1)]]
    texts = np.array(list(number), dtype=object)[drawn.T].tolist()
    return [" ".join(text[:length]) for text, length in zip(texts, lengths.tolist())]


def sales(rng, n: int) -> list:
    catalogue = np.round(rng.gamma(1.6, 9.0, 1200) + 0.39, 2)
    product = ranks(rng, 1200, n, 0.9)
    categories = ["homeware", "garden", "toys", "books", "kitchen", "music", "office", "outdoor", "tools", "gifts"]
    quantity = np.minimum(rng.geometric(0.32, n) * np.where(rng.random(n) < 0.1, 12, 1), 240)
    discount = rng.choice([0.0, 0.05, 0.1, 0.15, 0.25], n, p=[0.7, 0.12, 0.1, 0.05, 0.03])
    return [
        times(rng, n, 900),
        [f"C{c:05d}" for c in 12_000 + ranks(rng, 4000, n, 0.6)],
        np.array(categories, dtype=object)[product % len(categories)],
        skewed(rng, ["London", "North West", "Scotland", "Wales", "South East", "Ireland", "Midlands"], n),
        [f"{p:.2f}" for p in catalogue[product]],
        quantity,
        [f"{d:.2f}" for d in discount],
        (rng.random(n) < 0.04 + 0.2 * discount + 0.02 * (product % 7 == 3)).astype(int),
    ]


def stations(rng, n: int) -> list:
    station = rng.integers(0, 48, n)
    seconds = np.arange(n) * 3600 // 48
    day, year = seconds / 86_400 * 2 * np.pi, seconds / 31_557_600 * 2 * np.pi
    front = np.cumsum(rng.normal(0, 0.05, n)) * np.exp(-np.arange(n) / n)
    temperature = 9 + station % 11 - 9 * np.cos(year) - 4 * np.cos(day) + front + rng.normal(0, 0.8, n)
    humidity = np.clip(88 - 1.6 * temperature + rng.normal(0, 9, n), 12, 100)
    pressure = 1013 - front * 1.5 + (station % 5) + rng.normal(0, 1.1, n)
    wet = (humidity > 78) & (rng.random(n) < 0.35)
    sky = np.where(wet, "overcast", skewed(rng, ["clear", "few", "scattered", "broken", "overcast"], n, 0.5))
    return [
        seconds,
        [f"ST-{s:03d}" for s in 700 + station * 3],
        sky,
        skewed(rng, ["W", "SW", "NW", "S", "N", "E", "SE", "NE", "calm"], n, 0.7),
        [f"{t:.1f}" for t in temperature],
        humidity.astype(int),
        [f"{p:.1f}" for p in pressure],
        wet.astype(int),
    ]


def trips(rng, n: int) -> list:
    miles = np.round(np.maximum(rng.lognormal(0.75, 0.8, n), 0.1), 2)
    minutes = np.round(miles * rng.normal(4.1, 0.8, n).clip(1.5) + rng.exponential(3.0, n), 1)
    fare = np.round((3.0 + 2.5 * miles + 0.5 * minutes) * 2) / 2 + rng.choice([0.0, 0.5, 1.0, 2.5], n)
    payment = skewed(rng, ["card", "cash", "app", "dispute", "no charge"], n, 1.6)
    zones = [f"{part} {side}" for side in ("East", "West", "North", "South") for part in
             ("Midtown", "Harlem", "Chelsea", "Village", "Heights", "Park", "Airport", "Battery", "Yorkville", "Hill")]
    return [
        times(rng, n, 40),
        [f"{c // 100}{'ABCDEFGHJK'[c % 10]}{c % 100:02d}" for c in rng.integers(100, 9900, n)],
        skewed(rng, zones, n, 0.8),
        payment,
        [f"{m:.2f}" for m in miles],
        [f"{m:.1f}" for m in minutes],
        [f"{f:.2f}" for f in fare],
        ((payment == "card") & (rng.random(n) < 0.85)).astype(int),
    ]


def requests(rng, n: int) -> list:
    paths = [f"/{area}/{page}" for area in ("api/v1", "static", "images", "search", "account", "docs")
             for page in ("index.html", "list", "item", "logo.png", "style.css", "update", "history", "export.json")]
    path = ranks(rng, len(paths), n, 0.8)
    method = np.where(path % 8 == 5, "POST", skewed(rng, ["GET", "HEAD", "OPTIONS"], n, 3.0))
    status = rng.choice([200, 304, 404, 302, 500, 403], n, p=[0.8, 0.1, 0.05, 0.03, 0.01, 0.01])
    size = np.where(status == 304, 0, rng.lognormal(8.2 + (path % 5) * 0.3, 1.1, n)).astype(int)
    cached = (status == 304) | (rng.random(n) < 0.25 * (path % 8 >= 3))
    ms = np.maximum(rng.lognormal(3.2 - 1.6 * cached, 0.7, n), 1).astype(int)
    client = [f"10.{c % 32}.{c // 32 % 64}.{c % 251}" for c in ranks(rng, 6000, n, 0.8)]
    return [times(rng, n, 4), client, np.array(paths, dtype=object)[path], method, status, size, ms, cached.astype(int)]


MAKERS = {"sales": sales, "stations": stations, "trips": trips, "requests": requests}


def write(kind: str, seed: int, rows: int, out) -> None:
    schema, rng = SCHEMAS[kind], np.random.default_rng(seed)
    seconds, *columns = MAKERS[kind](rng, rows)
    stamps = np.char.replace(np.datetime_as_string(START + seconds.astype("timedelta64[s]")), "T", " ")
    number = len(schema.categories) + 1
    for column in range(number, number + len(schema.numbers)):
        values = [str(value) for value in columns[column]]
        for row in np.flatnonzero(rng.random(rows) < MISSING):
            values[row] = ""
        columns[column] = values
    keys = 500_000 + np.cumsum(rng.integers(1, 4, rows))
    lines = [",".join(map(str, row)) for row in zip(keys, stamps, *columns, prose(rng, rows, 6, 22))]
    repeated = set(np.flatnonzero(rng.random(rows) < REPEATED).tolist())
    out.write(",".join(schema.columns) + "\n")
    out.writelines(f"{line}\n" * (2 if row in repeated else 1) for row, line in enumerate(lines))


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.stdout)
