"""How often the Japanese analyser gives the label a reader would, and how fast it is.

    python bench/accuracy_japanese.py
    python bench/accuracy_japanese.py --errors
    python bench/accuracy_japanese.py --set comments.csv

Needs vaderSentiment (for what is English within the rows) and nothing else. Over the two committed
sets (tests/data/README.md says what they are worth) or the set given, columns ``text``, ``label`` and
optionally ``emotion``: F1 of each class, macro-F1, that of the commonest label, macro-F1 of the nine
emotions, and how many rows were taken for Japanese. 'Not scored' counts as neutral.

``--errors`` prints the rows of the development set that come out otherwise; those of the held-out set
are never printed, for nothing may be tuned on them.
"""
import argparse
import csv
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As the analysing process imports them: without the rest of the application.
sys.path.insert(0, str(ROOT / "webapp" / "kinds" / "comments"))

from analysis import scoring  # noqa: E402

DEVELOPMENT = ROOT / "tests" / "data" / "japanese_comments_dev.csv"
HELD_OUT = ROOT / "tests" / "data" / "japanese_comments_heldout.csv"
POLARITIES = ("negative", "neutral", "positive")
EMOTIONS = ("amusement", "anger", "disgust", "fear", "joy", "love", "neutral", "sadness", "surprise")
SPEED_SECONDS = 3.0

Row = dict[str, str]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--set", type=Path, help="a labelled CSV file instead of the committed ones")
    arguments.add_argument("--errors", action="store_true", help="the development rows that come out otherwise")
    given = arguments.parse_args()
    print(f"{'F1':<28}{'rows':>6}{'neg.':>7}{'neut.':>7}{'pos.':>7}"
          f"{'macro':>8}{'majority':>10}{'emotions':>10}{'ja':>7}")
    sets = [given.set] if given.set else [DEVELOPMENT, HELD_OUT]
    for path in sets:
        print_set(path.stem, rows_of(path))
    texts = [row["text"] for row in rows_of(sets[0])]
    print(f"\nspeed: {speed(texts):,.0f} comments/s of one core (language, polarity and emotion)")
    if given.errors:
        print_errors(rows_of(DEVELOPMENT))


def rows_of(path: Path) -> list[Row]:
    """The rows of a labelled file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def f1(expected: Sequence[str], got: Sequence[str], name: str) -> float:
    """F1 of one class = 2·tp / (2·tp + fp + fn)."""
    right = sum(label == ours == name for label, ours in zip(expected, got))
    return 2 * right / max(1, expected.count(name) + got.count(name))


def macro_f1(expected: Sequence[str], got: Sequence[str], classes: Sequence[str]) -> float:
    """The mean of F1 over ``classes``."""
    return sum(f1(expected, got, name) for name in classes) / len(classes)


def print_set(title: str, rows: list[Row]) -> None:
    """One line of the table."""
    expected = [row["label"] for row in rows]
    scored = [scoring.score(row["text"]) for row in rows]
    got = [ours.label or "neutral" for ours in scored]
    commonest = Counter(expected).most_common(1)[0][0]
    classes = "".join(f"{f1(expected, got, name):>7.3f}" for name in POLARITIES)
    emotions = "–"
    if "emotion" in rows[0]:
        felt = macro_f1([row["emotion"] for row in rows], [ours.emotion or "neutral" for ours in scored], EMOTIONS)
        emotions = f"{felt:.3f}"
    # Emoji, faces and laughter alone have no language.
    japanese = sum(ours.language in ("ja", "none") for ours in scored) / len(rows)
    print(f"{title:<28}{len(rows):>6}{classes}{macro_f1(expected, got, POLARITIES):>8.3f}"
          f"{macro_f1(expected, [commonest] * len(rows), POLARITIES):>10.3f}{emotions:>10}{japanese:>7.1%}")


def print_errors(rows: list[Row]) -> None:
    """The rows whose label is another: expected, ours with its score, text."""
    for row in rows:
        ours = scoring.score(row["text"])
        if (ours.label or "neutral") != row["label"]:
            print(f"{row['label']:<9}{ours.label or ours.language:<9}{ours.score or 0:>6.2f}  {row['text']}")


def speed(texts: Sequence[str]) -> float:
    """Comments for each second of one core, over ``SPEED_SECONDS``, after the lexicon is loaded."""
    scoring.score(texts[0])
    done, start = 0, time.process_time()
    while time.process_time() - start < SPEED_SECONDS:
        for text in texts:
            scoring.score(text)
        done += len(texts)
    return done / (time.process_time() - start)


if __name__ == "__main__":
    main()
