"""Makes the English weights of the embedded analysers again.

    python -m pip install -r bench/requirements.txt vaderSentiment==3.3.2
    python -m pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    tar xzf vaderSentiment-3.3.2.tar.gz
    tar xzf vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz
    python bench/train_english.py --train goemotions_train.tsv --rated hutto_ICWSM_2014 --out english.json

Two public sources, neither part of this repository:

- GoEmotions' training split, ``data/train.tsv`` of
  https://github.com/google-research/google-research/tree/master/goemotions (Demszky et al. 2020,
  CC BY 4.0): text, label numbers, id, tab-separated. Polarity and emotion.
- The sentences that people rated for VADER (Hutto and Gilbert 2014, MIT), as vaderSentiment's source
  distribution ships them. Polarity only.

Nothing here is random: the same input gives the same file. Every choice below (which features, how
many n-grams, what a source counts for, regularisation) was made by folds of these two sources.
"""
import argparse
import base64
import html
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from goemotions import EMOTIONS, Row, emotions_of, polarities_of, rows_of

# As the analysing process imports them: without the rest of the application.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "webapp" / "kinds" / "comments"))

from analysis import emoji, english, idioms, language  # noqa: E402

POLARITIES = ("negative", "neutral", "positive")
# Rarer n-grams are names and slips of the pen.
MIN_EXAMPLES = 5
TERMS_FOR_POLARITY = 24_000
TERMS_FOR_EMOTION = 16_000
# The number of examples an n-gram is in, to this power, times its largest weight: what it matters.
FREQUENCY_POWER = 0.5
INVERSE_REGULARISATION_OF_POLARITY = 1.0
INVERSE_REGULARISATION_OF_EMOTION = 2.0
# Classes of emotion count for (their number)^-this: 1 would make all equal, and rare ones too likely.
EMOTION_BALANCE_POWER = 0.7
# What an example of several emotions counts for, shared between them.
MIXED_EMOTIONS_WEIGHT = 0.5
# What an example of each source counts for: comments most, reviews and editorials less.
SOURCE_WEIGHTS = {"goemotions": 1.0, "tweets": 1.0, "amazonReviewSnippets": 0.5, "movieReviewSnippets": 0.5,
                  "nytEditorialSnippets": 0.3}
# Mean ratings run from -4 to 4.
RATED_NEUTRAL_UP_TO = 0.5
# Beside this much, a text of one common word (idf 2) is faint and one of many words (20 and more) is not.
FAINT_LENGTH = 6.0
IDF_STEP = 0.05
WEIGHT_MAX = 127
ITERATIONS_MAX = 300
TOLERANCE = 1e-3

_PUNCTUATION = re.compile(r"[^\w\s]")


class Example(NamedTuple):
    """A text as it stands or as it is typed in a hurry, with its source and its classes (at most one side)."""

    text: str
    source: str
    polarity: str | None
    emotions: tuple[str, ...]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--train", type=Path, required=True, help="GoEmotions' train.tsv")
    arguments.add_argument("--rated", type=Path, required=True, help="vaderSentiment's folder hutto_ICWSM_2014")
    arguments.add_argument("--out", type=Path, required=True, help="the file of weights to write")
    given = arguments.parse_args()
    form = fit(goemotions_examples(rows_of(given.train)) + rated_examples(given.rated))
    given.out.write_text(json.dumps(form, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(f"{given.out}: {form['terms'].count(chr(10)) + 1} n-grams, {given.out.stat().st_size} bytes")


def goemotions_examples(rows: Sequence[Row]) -> list[Example]:
    """GoEmotions' rows, a row of two sides or of an ambiguous label without one."""
    examples = []
    for row in rows:
        sides = polarities_of(row)
        # The set's masks stand in brackets, which no comment does: without them they are words.
        text = re.sub(r"\[(NAME|RELIGION)\]", r"\1", row.text)
        examples.append(Example(text, "goemotions", sides.pop() if len(sides) == 1 else None,
                                tuple(sorted(emotions_of(row)))))
    return examples


def rated_examples(folder: Path) -> list[Example]:
    """The sentences rated for VADER; their polarity by the mean of at least twenty people's ratings."""
    examples = []
    for source in SOURCE_WEIGHTS.keys() - {"goemotions"}:
        for line in (folder / f"{source}_GroundTruth.txt").read_text("utf-8", errors="replace").splitlines():
            _, rating, text = line.split("\t", 2)
            side = POLARITIES[1 + (float(rating) > RATED_NEUTRAL_UP_TO) - (float(rating) < -RATED_NEUTRAL_UP_TO)]
            text = html.unescape(text).replace("http://url_removed", "").replace("''", '"')
            examples.append(Example(text, source, side, ()))
    return sorted(examples)


def fit(examples: Sequence[Example]) -> dict:
    """The weights in the form ``english.Model`` reads.

    Each example is there twice, as it stands and lower-cased without punctuation, so that either way
    of writing is read. Multinomial logistic regressions, fitted twice: over every n-gram, to keep the
    n-grams that matter most for any class; then over the kept ones, for a text is normalised over them.
    """
    twice = [copy for example in examples
             for copy in (example, example._replace(text=typed_in_a_hurry(example.text)))]
    seen = [_evidence(example.text) for example in twice]
    words = [english.ngrams(evidence.words) for evidence in seen]
    measures = sparse.csr_matrix([evidence.measures for evidence in seen])
    everything = _vectorizer()
    matrix = _normalised(everything.fit_transform(words))
    # idf = 1 + ln(examples / examples with the n-gram)
    frequency = numpy.exp(1 - everything.idf_) ** FREQUENCY_POWER
    kept: set[int] = set()
    for model, terms in zip(_regressions(sparse.hstack([matrix, measures]).tocsr(), twice),
                            (TERMS_FOR_POLARITY, TERMS_FOR_EMOTION)):
        importance = numpy.abs(model.coef_[:, :matrix.shape[1]]).max(axis=0) * frequency
        kept.update(numpy.argsort(-importance, kind="stable")[:terms].tolist())
    names = everything.get_feature_names_out()
    terms = sorted(names[number] for number in kept)
    chosen = _vectorizer(terms)
    matrix = sparse.hstack([_normalised(chosen.fit_transform(words)), measures]).tocsr()
    return _form(terms, chosen.idf_, *_regressions(matrix, twice))


def typed_in_a_hurry(text: str) -> str:
    """The text in lower case and without punctuation, emoji included."""
    return _PUNCTUATION.sub("", text.lower())


def _evidence(text: str) -> english.Evidence:
    """What the application sees of a text beside its emoji and idioms."""
    text = english.unstretched(emoji.read(language.prepare(text)).rest)
    text = idioms.read(text, english.tokens(text), is_approved=False).rest
    return english.evidence(text, english.tokens(text))


def _vectorizer(vocabulary: list[str] | None = None) -> TfidfVectorizer:
    return TfidfVectorizer(analyzer=list, sublinear_tf=True, vocabulary=vocabulary, norm=None,
                           min_df=1 if vocabulary else 2 * MIN_EXAMPLES)


def _normalised(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The rows as ``english.Model.logits`` weighs them."""
    squares = numpy.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    return sparse.diags(1 / numpy.sqrt(squares + FAINT_LENGTH ** 2)) @ matrix


def _regressions(matrix: sparse.csr_matrix, examples: Sequence[Example]) -> tuple[LogisticRegression, ...]:
    """The regressions for polarity and for emotion over the rows of the examples that have them."""
    sided = [number for number, example in enumerate(examples) if example.polarity]
    keys = [(examples[number].source, examples[number].polarity) for number in sided]
    sizes, sources = Counter(keys), Counter(source for source, _ in keys)
    # Within each source every side counts the same; half for each of the two copies.
    weights = [SOURCE_WEIGHTS[key[0]] * sources[key[0]] / (2 * len(POLARITIES) * sizes[key]) for key in keys]
    polarity = _regression(INVERSE_REGULARISATION_OF_POLARITY).fit(matrix[sided], [key[1] for key in keys], weights)
    felt = [(number, name, 1.0 if len(example.emotions) == 1 else MIXED_EMOTIONS_WEIGHT / len(example.emotions))
            for number, example in enumerate(examples) for name in example.emotions]
    numbers, names, shares = zip(*felt)
    counts = Counter(names)
    weights = [share / 2 * (len(names) / len(counts) / counts[name]) ** EMOTION_BALANCE_POWER
               for name, share in zip(names, shares)]
    emotion = _regression(INVERSE_REGULARISATION_OF_EMOTION).fit(matrix[list(numbers)], names, weights)
    assert tuple(polarity.classes_) == POLARITIES and set(emotion.classes_) == set(EMOTIONS)
    return polarity, emotion


def _regression(inverse_regularisation: float) -> LogisticRegression:
    return LogisticRegression(C=inverse_regularisation, max_iter=ITERATIONS_MAX, tol=TOLERANCE)


def _form(terms: list[str], idf: numpy.ndarray, *models: LogisticRegression) -> dict:
    weights = numpy.vstack([model.coef_ for model in models])
    of_terms, of_measures = weights[:, :len(terms)], weights[:, len(terms):]
    scale = numpy.concatenate([numpy.full(len(model.coef_), numpy.abs(model.coef_[:, :len(terms)]).max() / WEIGHT_MAX)
                               for model in models])
    rows = numpy.vstack([numpy.rint(idf / IDF_STEP), numpy.rint(of_terms / scale[:, None]) + 128]).T
    return {
        "polarities": models[0].classes_.tolist(),
        "emotions": models[1].classes_.tolist(),
        "bias": [round(float(bias), 4) for model in models for bias in model.intercept_],
        "measures": [[round(float(weight), 4) for weight in row] for row in of_measures.T],
        "faint_length": FAINT_LENGTH,
        "idf_step": IDF_STEP,
        "scale": [round(float(step), 6) for step in scale],
        "terms": "\n".join(terms),
        "rows": base64.b85encode(numpy.ascontiguousarray(rows.astype(numpy.uint8)).tobytes()).decode("ascii"),
    }


if __name__ == "__main__":
    main()
