"""Tool calls of an agent that analyses a data set in its interpreter, with pandas, scikit-learn and matplotlib.

A session keeps what each step made, as an interpreter keeps its variables, and replaces a few. What is kept was chosen
to be what such sessions hold, neither tuned to compress well nor noise: frames with the digits their files have (cents,
tenths, counts), categories as Python strings and as codes, times, a comment a row, results rounded as an agent prints
them; and what is full precision in real sessions stays so: standardised features, coefficients, tree thresholds,
probabilities, TF-IDF weights. Answers are digests of kept memory.

Results do not depend on addresses or on Python's string hashes: models have a random_state and run on one thread, and
nothing is taken from a set in its order.
"""

import io
import json
import tempfile
from random import Random

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as pyplot
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import table_digests
from digests import digest_of
from notebook import Notebook, by_name, fetch, review, shell
from schemas import FILE

table_digests.register_models()

MODELS = {
    "logistic": lambda: LogisticRegression(max_iter=300, random_state=0),
    "forest": lambda: RandomForestClassifier(12, max_depth=9, min_samples_leaf=4, max_samples=0.4, random_state=0),
    "kmeans": lambda: KMeans(6, n_init=2, max_iter=30, random_state=0),
    "pca": lambda: PCA(5, svd_solver="full", random_state=0),
}
DOCUMENTS = 9000


def load(session):
    """Parses the file."""
    frame = pd.read_csv(session.path(FILE), parse_dates=[session.schema.time])
    session.items["data"] = frame
    return {"rows": len(frame), "frame": digest_of(frame), "missing": int(frame.isna().sum().sum())}


def clean(session, seed):
    """Drops repeated rows, fills what is missing, and adds what later steps ask for. Replaces the frame."""
    schema, frame = session.schema, session.items["data"]
    frame = frame.drop_duplicates(schema.key).reset_index(drop=True)
    for name in schema.numbers:
        median = frame.groupby(schema.categories[0])[name].transform("median")
        frame[name] = frame[name].fillna(median.round(2))
    low, high = frame[schema.numbers[0]].quantile([0.001, 0.999 - seed % 5 / 1000])
    frame[schema.numbers[0]] = frame[schema.numbers[0]].clip(low, high).round(2)
    frame[schema.categories[1]] = frame[schema.categories[1]].astype("category")
    frame["hour"] = frame[schema.time].dt.hour
    frame["weekday"] = frame[schema.time].dt.day_name()
    session.items["data"] = frame
    return {"rows": len(frame), "frame": digest_of(frame)}


def group(session, seed):
    """Totals by two keys, and each row's share of its group."""
    schema, frame, pick = session.schema, session.items["data"], Random(seed)
    first, second = pick.sample([*schema.categories, "hour", "weekday"], 2)
    number = pick.choice(schema.numbers)
    numbers = frame.groupby([first, second], observed=True)[list(schema.numbers)]
    totals = numbers.agg(["sum", "mean", "std", "count"]).round(3)
    by_first, by_entity = (frame.groupby(key, observed=True)[number] for key in (first, schema.entity))
    rows = pd.DataFrame({
        "share": (frame[number] / by_first.transform("sum")).round(6),
        "above": (frame[number] - by_first.transform("mean")).round(3),
        "rank": by_first.rank(method="first"),
        "entity_total": by_entity.transform("sum").round(2),
        "entity_count": by_entity.transform("count"),
    })
    session.keep("group", {"totals": totals, "rows": rows})
    return {"groups": len(totals), "totals": digest_of(totals), "rows": digest_of(rows)}


def merge(session, seed):
    """Joins a table of the entities that it is given, and keeps both."""
    schema, frame, rng = session.schema, session.items["data"], np.random.default_rng(seed)
    names = np.sort(frame[schema.entity].unique())
    segments = np.array(["basic", "plus", "pro", "trial"], dtype=object)
    entities = pd.DataFrame({
        schema.entity: names,
        "segment": segments[rng.choice(4, len(names), p=[0.5, 0.25, 0.15, 0.1])],
        "since": np.datetime64("2018-01-01") + rng.integers(0, 2500, len(names)).astype("timedelta64[D]"),
        "score": np.round(rng.normal(62, 14, len(names)), 1),
    })
    some = entities[rng.random(len(names)) < 0.9]
    columns = [schema.key, schema.time, schema.entity, schema.categories[0], *schema.numbers]
    joined = frame[columns].merge(some, on=schema.entity, how="left")
    joined["age_days"] = (joined[schema.time] - joined["since"]).dt.days
    joined = joined.sort_values(["score", schema.key], kind="stable").reset_index(drop=True)
    session.keep("merge", {"entities": entities, "joined": joined})
    return {"rows": len(joined), "joined": digest_of(joined)}


def pivot(session, seed):
    """One number by time and category, wide and long, as a chart or a model wants it."""
    schema, frame, pick = session.schema, session.items["data"], Random(seed)
    span = frame[schema.time].iloc[-1] - frame[schema.time].iloc[0]
    step = max(int(span.total_seconds() / pick.choice([400, 600, 900])), 60)
    number, category = pick.choice(schema.numbers), pick.choice(schema.categories)
    moment = frame[schema.time].dt.floor(f"{step}s")
    wide = frame.pivot_table(index=moment, columns=category, values=number, aggfunc=["mean", "count"], observed=True)
    wide = wide.round(3)
    filled = wide.interpolate(limit=4).round(3)
    long = filled["mean"].stack().rename("mean").reset_index()
    session.keep("pivot", {"wide": wide, "filled": filled, "long": long})
    return {"shape": list(wide.shape), "wide": digest_of(wide), "long": digest_of(long)}


def rolling(session, seed):
    """Moving statistics of a number over several windows, and how each row differs from them."""
    schema, frame, pick = session.schema, session.items["data"], Random(seed)
    series = frame[pick.choice(schema.numbers)].astype(float)
    windows = [12, 48, 168, pick.randrange(24, 96)]
    kept = pd.DataFrame({f"mean{window}-{i}": series.rolling(window, 1).mean() for i, window in enumerate(windows)})
    kept["std"] = series.rolling(48, 2).std()
    kept["median"] = series.rolling(25, 1).median()
    kept["ewm"] = series.ewm(span=windows[-1]).mean()
    kept["change"] = series.diff()
    kept = kept.round(3)
    kept["odd"] = (series - kept["median"]).abs() > 3 * kept["std"]
    session.keep("rolling", kept)
    return {"odd": int(kept["odd"].sum()), "kept": digest_of(kept)}


def features(session, seed) -> tuple:
    """Matrix, names and target for a model: numbers standardised at full precision, categories as 0 and 1."""
    schema, frame, pick = session.schema, session.items["data"], Random(seed)
    dummies = pd.get_dummies(frame[schema.categories[1]], dtype=float).iloc[:, :6]
    numbers = frame[[*schema.numbers, "hour"]].astype(float)
    numbers["log"] = np.log1p(numbers[pick.choice(schema.numbers)].clip(lower=0))
    scaler = StandardScaler().fit(numbers)
    matrix = np.hstack([scaler.transform(numbers), dummies.to_numpy()])
    return matrix, [*numbers.columns, *dummies.columns], frame[schema.target].to_numpy(), scaler


def train(session, model, seed):
    """Fits a model and keeps it with its matrices, as a notebook does."""
    matrix, names, target, scaler = features(session, seed)
    split = train_test_split(matrix, target, test_size=0.3, random_state=seed % 1000)
    fitted = MODELS[model]().fit(split[0], split[2])
    kept = {"model": fitted, "scaler": scaler, "names": names, "split": split}
    session.keep("train", kept)
    learned = fitted.score(split[1], split[3])
    return {"score": f"{learned:.6g}", "model": digest_of(fitted), "matrix": digest_of(matrix)}


def predict(session, seed):
    """What the last model says of the rows it has not seen."""
    kept = next(value for name, value in reversed(session.items.items()) if name.startswith("train_"))
    model, rows, truth = kept["model"], kept["split"][1], kept["split"][3]
    method = "predict_proba" if hasattr(model, "predict_proba") else "transform"
    output = getattr(model, method)(rows)
    result = pd.DataFrame(output, columns=[f"p{i}" for i in range(output.shape[1])])
    result["truth"] = truth
    result["group"] = model.predict(rows) if hasattr(model, "predict") else np.argmax(output, axis=1)
    table = pd.crosstab(result["group"], result["truth"])
    worst = result.nlargest(200 + seed % 100, "p0")
    session.keep("predict", {"result": result, "table": table, "worst": worst})
    return {"table": table.to_numpy().tolist(), "result": digest_of(result)}


def plot(session, seed):
    """Draws the data to a PNG."""
    schema, frame, pick = session.schema, session.items["data"], Random(seed)
    x, y = pick.sample(schema.numbers, 2)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), dpi=80)
    if pick.random() < 0.5:
        left.hist(frame[x], bins=pick.randrange(30, 60))
    else:
        some = frame.iloc[:: max(len(frame) // 1500, 1)]
        left.scatter(some[x], some[y], s=4, c=some["hour"])
    left.set_title(x)
    means = frame.groupby(schema.categories[0])[y].mean().nlargest(12)
    right.barh(means.index.astype(str), means.to_numpy())
    right.set_title(f"{y} by {schema.categories[0]}")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    pyplot.close(figure)
    session.keep("plot", picture.getvalue())
    return {"bytes": len(picture.getvalue()), "png": digest_of(picture.getvalue())}


def report(session, seed):
    """A JSON report of the data with its most notable rows, written, and read back."""
    schema, frame, pick = session.schema, session.items["data"], Random(seed)
    number = pick.choice(schema.numbers)
    notable = frame.nlargest(2500, number)[list(schema.columns)].copy()
    notable[schema.time] = notable[schema.time].astype(str)
    notable[schema.categories[1]] = notable[schema.categories[1]].astype(str)
    summary = frame[list(schema.numbers)].describe().round(3)
    value = {"by": number, "summary": summary.to_dict(), "rows": notable.to_dict("records")}
    with open(session.path("report.json"), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    with open(session.path("report.json"), encoding="utf-8") as file:
        text = file.read()
    session.keep("report", {"text": text, "value": json.loads(text)})
    return {"text": digest_of(text), "value": digest_of(value)}


def vectorise(session, seed):
    """TF-IDF of the comments, and which are nearest to some of them."""
    texts = session.items["data"][session.schema.text]
    start = seed % max(len(texts) - DOCUMENTS, 1)
    texts = texts.iloc[start : start + DOCUMENTS].tolist()
    vectoriser = TfidfVectorizer(min_df=2, max_features=4000, sublinear_tf=bool(seed % 2))
    matrix = vectoriser.fit_transform(texts)
    near = np.asarray((matrix[: 1 + seed % 40] @ matrix.T).todense())
    nearest = np.argsort(-near, axis=1, kind="stable")[:, 1:6]
    session.keep("vectorise", {"vectoriser": vectoriser, "matrix": matrix, "nearest": nearest})
    return {"terms": len(vectoriser.vocabulary_), "matrix": digest_of(matrix), "nearest": digest_of(nearest)}


class Session(Notebook):
    tools = by_name(
        fetch, load, clean, group, merge, pivot, rolling, train, predict, plot, report, shell, vectorise, review
    )


def warm_up(args: list) -> None:
    """Runs every tool once on little data: lazy imports, fonts and caches then belong to the template."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session("template", folder)
        session.call("fetch", {"kind": "sales", "seed": 1, "rows": 600})
        session.call("load", {})
        for tool in Session.tools:
            if tool == "train":
                for model in MODELS:
                    session.call("train", {"model": model, "seed": 1})
                    session.call("predict", {"seed": 1})
            elif tool not in ("fetch", "load", "review", "predict"):
                session.call(tool, {"seed": 1})
        session.call("review", {})
