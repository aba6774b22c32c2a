"""How often the embedded analysers agree with people, and how fast they are.

    python bench/accuracy.py
    python bench/accuracy.py --goemotions dev.tsv labels.txt

Needs vaderSentiment and nothing else. Macro-F1 over positive, neutral and negative: of our analyser,
of VADER alone (±0.05, its authors' thresholds) and of the commonest label.

- YouTube: ``tests/data/youtube_comments_en_labelled.csv``, 1,500 rows of a public, CC0 set; its labels
  are noisy and some of its rows are not English. Given over all rows, where 'not scored' counts as
  neutral, and over the rows our analyser takes for English. Nothing was tuned on it.
- GoEmotions: the split's rows with one side by its authors' grouping. Rows of two sides, and those
  labelled with what the authors call ambiguous (confusion, curiosity, realization, surprise), are
  dropped. The nine emotions are measured on the rows whose labels fall in one of the nine.
"""
import argparse
import csv
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from goemotions import EMOTIONS, emotions_of, only, polarities_of, rows_of
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

ROOT = Path(__file__).resolve().parents[1]
# As the analysing process imports them: without the rest of the application.
sys.path.insert(0, str(ROOT / "webapp" / "kinds" / "comments"))

from analysis import scoring  # noqa: E402

YOUTUBE = ROOT / "tests" / "data" / "youtube_comments_en_labelled.csv"
POLARITIES = ("negative", "neutral", "positive")
VADER_FROM = 0.05
SPEED_SECONDS = 3.0

Labelled = list[tuple[str, str]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--goemotions", nargs=2, type=Path, metavar=("SPLIT.tsv", "LABELS.txt"))
    given = arguments.parse_args()
    youtube = youtube_rows()
    english = [(text, label) for text, label in youtube if scoring.score(text).language == "en"]
    print(f"{'macro-F1, three classes':<34}{'rows':>7}{'ours':>8}{'VADER':>8}{'majority':>10}")
    print_polarity("YouTube, all rows", youtube)
    print_polarity("YouTube, English rows", english)
    if given.goemotions:
        split, labels = given.goemotions
        rows = list(rows_of(split, labels.read_text("utf-8").split()))
        sided = [(row.text, side) for row in rows if (side := only(polarities_of(row)))]
        print_polarity(f"GoEmotions {split.stem}", sided)
        felt = [(row.text, emotion) for row in rows if (emotion := only(emotions_of(row)))]
        print(f"\nmacro-F1, nine emotions: {emotion_f1(felt):.3f} over {len(felt)} rows of GoEmotions {split.stem}")
    print(f"\nspeed: {speed([text for text, _ in youtube]):,.0f} comments/s of one core "
          f"(language, polarity and emotion; YouTube rows)")


def youtube_rows() -> Labelled:
    """The committed rows: (text, label)."""
    with YOUTUBE.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def macro_f1(expected: Sequence[str], got: Sequence[str], classes: Sequence[str]) -> float:
    """The mean over ``classes`` of F1 = 2·tp / (2·tp + fp + fn)."""
    right = Counter(label for label, ours in zip(expected, got) if label == ours)
    sizes, answers = Counter(expected), Counter(got)
    return sum(2 * right[name] / max(1, sizes[name] + answers[name]) for name in classes) / len(classes)


def print_polarity(title: str, rows: Labelled) -> None:
    """One line of the table."""
    expected = [label for _, label in rows]
    stock = SentimentIntensityAnalyzer()
    commonest = Counter(expected).most_common(1)[0][0]
    answers: list[Callable[[str], str]] = [
        lambda text: scoring.score(text).label or "neutral",
        lambda text: _vader_label(stock.polarity_scores(text)["compound"]),
        lambda _: commonest,
    ]
    ours, vader, majority = (macro_f1(expected, [answer(text) for text, _ in rows], POLARITIES) for answer in answers)
    print(f"{title:<34}{len(rows):>7}{ours:>8.3f}{vader:>8.3f}{majority:>10.3f}")


def emotion_f1(rows: Labelled) -> float:
    """Macro-F1 of the nine emotions."""
    return macro_f1([label for _, label in rows], [scoring.score(text).emotion for text, _ in rows], list(EMOTIONS))


def speed(texts: Sequence[str]) -> float:
    """Comments for each second of one core, over ``SPEED_SECONDS``, after the weights are loaded."""
    scoring.score(texts[0])
    done, start = 0, time.process_time()
    while time.process_time() - start < SPEED_SECONDS:
        for text in texts:
            scoring.score(text)
        done += len(texts)
    return done / (time.process_time() - start)


def _vader_label(compound: float) -> str:
    return "positive" if compound >= VADER_FROM else "negative" if compound <= -VADER_FROM else "neutral"


if __name__ == "__main__":
    main()
