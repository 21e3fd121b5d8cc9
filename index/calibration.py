"""One scale of likeness for all models and languages: 0 as what is unrelated, 1 the same.

Models differ in what they make of unrelated texts. E5 puts two unrelated Chinese sentences at a
cosine of 0.86, two English ones at 0.78, one of each at 0.74: by raw cosines a threshold of 0.45
would make one group of everything, and with a single zero it still would of all that is Chinese.
So the zero is measured: for each pair of scripts the median over built-in pairs that have nothing
to do with each other. A score is (cosine - zero) / (1 - zero); vectors of other lengths have
(a.b - zero) / sqrt((a.a - zero)(b.b - zero)), which is the same for unit vectors.

`similar` in the reply of `memory_remember` and the search for doubles use the scale of texts. The
floor of the vector lane is the zero of questions with texts, kept with the file as mean and
deviation. The cosine is always reported beside the score.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.types import Vectors
from text import words

Zeros = NDArray[np.float32]
"""Medians of unrelated pairs, (2, 2): of texts in scripts with spaces (0) or without (1)."""

Scripts = NDArray[np.intp]  # 0 or 1 for each text

EPSILON = 1e-6  # of the distance from unrelated to identical


class MakesVectors(Protocol):
    """A model, as far as measuring needs it."""

    def passages(self, texts: Sequence[str]) -> Vectors: ...

    def query(self, text: str) -> Vectors: ...


UNRELATED = (
    "The ferry to the island leaves twice a day in summer.",
    "Her grandmother taught her how to knit socks.",
    "Quarterly revenue fell short of what analysts had expected.",
    "Install the driver, then restart the computer.",
    "The recipe needs two cups of flour and a pinch of salt.",
    "Volcanoes form where tectonic plates move apart.",
    "He missed the penalty in the last minute of the match.",
    "Please sign the lease before the end of the month.",
    "这座桥建于明朝，后来多次重修。",
    "他每天早上跑五公里。",
    "新版本修复了登录页面的错误。",
    "医生建议她少吃甜食。",
    "博物馆周一闭馆。",
    "股东大会通过了分红方案。",
    "猫在窗台上睡着了。",
    "这首歌的作词人是一位中学老师。",
)
"""No two of them have anything to do with each other."""


def scripts(texts: Sequence[str]) -> Scripts:
    """Of each text whether it is written without spaces."""
    return np.array([words.is_unspaced(text) for text in texts], np.intp)


def zeros(products: NDArray[np.float32], kinds: Scripts, others: Scripts) -> Zeros:
    """The medians of products of some texts with others, by the scripts of the two.

    A text and the one at the same place of the others are the same, and do not count.
    """
    different = np.eye(*products.shape) == 0
    medians = [
        [
            np.median(products[np.outer(kinds == one, others == other) & different])
            for other in (0, 1)
        ]
        for one in (0, 1)
    ]
    return np.array(medians, np.float32)


def of_texts(model: MakesVectors) -> Zeros:
    """Where a model puts unrelated texts."""
    vectors, kinds = model.passages(UNRELATED), scripts(UNRELATED)
    return zeros(vectors @ vectors.T, kinds, kinds)


def scaled(cosines: Vectors, zero: Vectors | float) -> Vectors:
    """Cosines of unit vectors on the scale, each with the zero of its pair of scripts."""
    found: Vectors = np.asarray((cosines - zero) / np.maximum(1 - zero, EPSILON), np.float32)
    return found


def similarity(vectors: Vectors, others: Vectors, zero: Vectors | float) -> Vectors:
    """How alike vectors of any length are on the scale: float32, (len(vectors), len(others)).

    `zero` is one for all pairs or one for each. If two vectors have a part of squared length
    `zero` in common, and each a part of its own, this is the cosine of the own parts:
    (a·b - zero) / sqrt((a·a - zero) (b·b - zero)). For unit vectors it is the same as scaled().
    """
    own = np.maximum(np.einsum("ij,ij->i", vectors, vectors)[:, None] - zero, EPSILON)
    their = np.maximum(np.einsum("ij,ij->i", others, others) - zero, EPSILON)
    found: Vectors = (vectors @ others.T - zero) / np.sqrt(own * their)
    return np.clip(found, -1, 1).astype(np.float32)
