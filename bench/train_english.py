"""Makes the English weights of the embedded analysers again, from GoEmotions' training split.

    python -m pip install -r bench/requirements.txt vaderSentiment
    python bench/train_english.py --train goemotions_train.tsv --out webapp/kinds/comments/analysis/weights

The split is ``data/train.tsv`` of https://github.com/google-research/google-research/tree/master/goemotions
(Demszky et al. 2020, CC BY 4.0): text, label numbers, id, tab-separated. It is not part of this repository.
"""
import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from goemotions import Row, emotion_of, polarity_of, rows_of

# As the analysing process imports them: without the rest of the application.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "webapp" / "kinds" / "comments"))

from analysis import emoji, english, language  # noqa: E402

# Rarer n-grams are names and slips of the pen.
MIN_ROWS = 3
# Whole numbers up to this one: three digits at most keep the files small, and cost no accuracy.
WEIGHT_MAX = 127


class Task(NamedTuple):
    """One file of weights: the class of a row (None drops it), how many n-grams are kept, how it is fitted."""

    file: str
    class_of: Callable[[Row], str | None]
    terms: int
    inverse_regularisation: float


TASKS = (
    Task("en_polarity_4000.json", polarity_of, 4000, 2.0),
    Task("en_emotion_3000.json", emotion_of, 3000, 2.0),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--train", type=Path, required=True, help="GoEmotions' train.tsv")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the two files of weights")
    given = arguments.parse_args()
    rows = list(rows_of(given.train))
    for task in TASKS:
        model = fit(task, rows)
        path = given.out / task.file
        path.write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
        print(f"{path}: {len(model['terms'])} n-grams, {path.stat().st_size} bytes")


def fit(task: Task, rows: Iterable[Row]) -> dict:
    """The weights of one task in the form ``english`` reads.

    Multinomial logistic regression, fitted twice: over every n-gram, to choose those whose weights are
    largest for how often they occur; then over the chosen ones, because a text is normalised over them.
    """
    labelled = [(ngrams(row.text), task.class_of(row)) for row in rows]
    texts = [text for text, name in labelled if name]
    names = [name for _, name in labelled if name]
    everything = _vectorizer()
    first = _regression(task).fit(everything.fit_transform(texts), names)
    rows_with = numpy.exp(-everything.idf_)
    weight = numpy.abs(first.coef_).max(axis=0) * rows_with**0.5 * everything.idf_
    kept = sorted(everything.get_feature_names_out()[numpy.argsort(-weight)[:task.terms]])
    chosen = _vectorizer(kept)
    last = _regression(task).fit(chosen.fit_transform(texts), names)
    scale = float(numpy.abs(last.coef_).max()) / WEIGHT_MAX
    rounded = numpy.rint(last.coef_ / scale).astype(int).T.tolist()
    return {
        "classes": last.classes_.tolist(),
        "bias": [round(float(bias), 4) for bias in last.intercept_],
        "scale": round(scale, 6),
        "terms": {term: [round(float(idf), 2), *row] for term, idf, row in zip(kept, chosen.idf_, rounded)},
    }


def ngrams(text: str) -> list[str]:
    """The n-grams the application will see of ``text``: read the same way, names masked by none."""
    text = re.sub(r"\[(NAME|RELIGION)\]", r"\1", text)
    words = english.tokens(emoji.read(language.prepare(text)).rest)
    return words + [" ".join(pair) for pair in pairwise(words)]


def _vectorizer(vocabulary: list[str] | None = None) -> TfidfVectorizer:
    return TfidfVectorizer(analyzer=list, sublinear_tf=True, vocabulary=vocabulary,
                           min_df=1 if vocabulary else MIN_ROWS)


def _regression(task: Task) -> LogisticRegression:
    return LogisticRegression(C=task.inverse_regularisation, class_weight="balanced", max_iter=500)


if __name__ == "__main__":
    main()
