"""Digests of arrays, frames and models: import it beside digests.py where sessions keep such things."""

import numpy as np
import pandas as pd

from digests import digest, digest_of


@digest_of.register
def _(value: np.ndarray) -> str:
    if value.dtype == object:
        return digest("\n".join(map(str, value.ravel())).encode())
    return digest(np.ascontiguousarray(value).tobytes())


@digest_of.register
def _(value: np.generic) -> str:
    return digest(value.tobytes())


@digest_of.register
def _(value: pd.Series) -> str:
    if isinstance(value.dtype, pd.CategoricalDtype):
        return digest(digest_of(value.cat.codes).encode(), digest_of(value.cat.categories).encode())
    return digest_of(value.to_numpy())


@digest_of.register
def _(value: pd.Index) -> str:
    return digest_of(value.to_numpy())


@digest_of.register
def _(value: pd.DataFrame) -> str:
    parts = [value.iloc[:, place] for place in range(value.shape[1])]
    if not isinstance(value.index, pd.RangeIndex):
        parts.append(value.index)
    return digest(*(digest_of(part).encode() for part in parts))


def register_models() -> None:
    """Kinds of scipy and scikit-learn, which the demo does without."""
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.tree._tree import Tree

    @digest_of.register
    def _(value: csr_matrix) -> str:
        return digest(*(part.tobytes() for part in (value.data, value.indices, value.indptr)))

    @digest_of.register
    def _(value: Tree) -> str:
        parts = (value.children_left, value.children_right, value.feature, value.threshold, value.impurity, value.value)
        return digest(*(np.ascontiguousarray(part).tobytes() for part in parts))

    @digest_of.register
    def _(value: BaseEstimator) -> str:
        """Everything it learned: by convention the attributes whose names end in an underscore."""
        learned = {name: part for name, part in vars(value).items() if name.endswith("_")}
        return digest_of({"model": type(value).__name__, **learned})

    @digest_of.register
    def _(value: TfidfVectorizer) -> str:
        return digest(digest_of(value.idf_).encode(), digest_of(value.vocabulary_).encode())
