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
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from goemotions import Row, emotions_of, polarities_of, rows_of

# As the analysing process imports them: without the rest of the application.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "webapp" / "kinds" / "comments"))

from analysis import emoji, english, language  # noqa: E402

# Rarer n-grams are names and slips of the pen.
MIN_ROWS = 3
# Whole numbers up to this one: three digits at most keep the files small, and cost no accuracy.
WEIGHT_MAX = 127
FIRST_INVERSE_REGULARISATION = 2.0


class Task(NamedTuple):
    """One file of weights: the classes of a row, how many n-grams are kept, how it is fitted."""

    file: str
    classes_of: Callable[[Row], set[str]]
    terms: int
    # How much frequency counts when the n-grams to keep are chosen: their number of rows to this power.
    frequency_power: float
    # Of the second fit; smaller is smoother. Chosen on the dev split.
    inverse_regularisation: float
    # What a row of two classes counts for, shared between them; 0 leaves it out.
    mixed_row_weight: float


TASKS = (
    Task("en_polarity_4000.json", polarities_of, terms=4000, frequency_power=0.5,
         inverse_regularisation=2.0, mixed_row_weight=0.0),
    Task("en_emotion_3000.json", emotions_of, terms=3000, frequency_power=0.0,
         inverse_regularisation=2.0, mixed_row_weight=0.5),
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

    Multinomial logistic regression, fitted twice: over every n-gram, to keep the n-grams that
    matter most for any class; then over the kept ones, because a text is normalised over them alone.
    """
    texts, names, shares = _examples(task, rows)
    # As class_weight="balanced" does; here because rows have weights of their own.
    sizes = Counter(names)
    weights = [share * len(names) / (len(sizes) * sizes[name]) for name, share in zip(names, shares)]
    everything = _vectorizer()
    first = _regression(FIRST_INVERSE_REGULARISATION).fit(everything.fit_transform(texts), names, weights)
    largest = numpy.abs(first.coef_).max(axis=0)
    # idf = 1 + ln(rows / rows with the n-gram)
    importance = largest * numpy.exp(1 - everything.idf_) ** task.frequency_power
    kept = sorted(everything.get_feature_names_out()[numpy.argsort(-importance, kind="stable")[:task.terms]])
    chosen = _vectorizer(kept)
    last = _regression(task.inverse_regularisation).fit(chosen.fit_transform(texts), names, weights)
    scale = float(numpy.abs(last.coef_).max()) / WEIGHT_MAX
    rounded = numpy.rint(last.coef_ / scale).astype(int).T.tolist()
    return {
        "classes": last.classes_.tolist(),
        "bias": [round(float(bias), 4) for bias in last.intercept_],
        "scale": round(scale, 6),
        "terms": {term: [round(float(idf), 2), *row] for term, idf, row in zip(kept, chosen.idf_, rounded)},
    }


def _examples(task: Task, rows: Iterable[Row]) -> tuple[list[list[str]], list[str], list[float]]:
    """The n-grams, the class and the share of each example; a row of n classes gives n of them or none."""
    examples = []
    for row in rows:
        classes = sorted(task.classes_of(row))
        share = 1.0 if len(classes) == 1 else task.mixed_row_weight / max(1, len(classes))
        if share:
            found = ngrams(row.text)
            examples += [(found, name, share) for name in classes]
    texts, names, shares = zip(*examples)
    return list(texts), list(names), list(shares)


def ngrams(text: str) -> list[str]:
    """The n-grams the application will see of ``text``, read as it reads."""
    # The set's masks stand in brackets, which no comment does: without them they are words.
    text = re.sub(r"\[(NAME|RELIGION)\]", r"\1", text)
    words = english.tokens(emoji.read(language.prepare(text)).rest)
    return words + [" ".join(pair) for pair in pairwise(words)]


def _vectorizer(vocabulary: list[str] | None = None) -> TfidfVectorizer:
    return TfidfVectorizer(analyzer=list, sublinear_tf=True, vocabulary=vocabulary,
                           min_df=1 if vocabulary else MIN_ROWS)


def _regression(inverse_regularisation: float) -> LogisticRegression:
    return LogisticRegression(C=inverse_regularisation, max_iter=500)


if __name__ == "__main__":
    main()
