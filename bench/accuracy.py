"""How often the embedded analysers agree with people, and what they cost.

    python bench/accuracy.py
    python bench/accuracy.py --goemotions dev.tsv labels.txt
    python bench/accuracy.py --cross-validate train.tsv hutto_ICWSM_2014

The first two need vaderSentiment and nothing else; the third fits new weights, and needs what
bench/train_english.py needs. Macro-F1 over positive, neutral and negative, with F1 for each: of our
analyser, of VADER alone (±0.05, its authors' thresholds) and of the commonest label; and the share of
rows where our label is the person's.

- YouTube: ``tests/data/youtube_comments_en_labelled.csv``, 1,500 rows of a public, CC0 set; its labels
  are noisy and some of its rows are not English. Given over all rows, where 'not scored' counts as
  neutral, and over the rows our analyser takes for English. Nothing was tuned on it.
- GoEmotions: the split's rows with one side by its authors' grouping. Rows of two sides, and those
  labelled with what the authors call ambiguous (confusion, curiosity, realization, surprise), are
  dropped. The nine emotions are measured on the rows whose labels fall in one of the nine.
- Five folds: every source of the training data is cut in five; each fifth is read with weights fitted
  on the other four. 'Typed in a hurry': the same rows, lower-cased and without punctuation.
"""
import argparse
import csv
import json
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

from goemotions import EMOTIONS, Row, emotions_of, only, polarities_of, rows_of
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

ROOT = Path(__file__).resolve().parents[1]
# As the analysing process imports them: without the rest of the application.
sys.path.insert(0, str(ROOT / "webapp" / "kinds" / "comments"))

from analysis import english, scoring  # noqa: E402

YOUTUBE = ROOT / "tests" / "data" / "youtube_comments_en_labelled.csv"
POLARITIES = ("negative", "neutral", "positive")
VADER_FROM = 0.05
SPEED_SECONDS = 3.0
FOLDS = 5

Labelled = list[tuple[str, str]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--goemotions", nargs=2, type=Path, metavar=("SPLIT.tsv", "LABELS.txt"))
    arguments.add_argument("--cross-validate", nargs=2, type=Path, metavar=("TRAIN.tsv", "RATED"))
    given = arguments.parse_args()
    if given.cross_validate:
        print_folds(*given.cross_validate)
        return
    youtube = youtube_rows()
    spoken = [(text, label) for text, label in youtube if scoring.score(text).language == "en"]
    print(f"{'macro-F1, three classes':<34}{'rows':>7}{'ours':>8}{'VADER':>8}{'majority':>10}"
          f"   agreed   F1 {', '.join(POLARITIES)}")
    print_polarity("YouTube, all rows", youtube)
    print_polarity("YouTube, English rows", spoken)
    if given.goemotions:
        split, labels = given.goemotions
        rows = list(rows_of(split, labels.read_text("utf-8").split()))
        print_polarity(f"GoEmotions {split.stem}", sided(rows))
        felt = [(row.text, emotion) for row in rows if (emotion := only(emotions_of(row)))]
        got = [scoring.score(text).emotion for text, _ in felt]
        of_each = f1([label for _, label in felt], got, list(EMOTIONS))
        print(f"\nmacro-F1, nine emotions: {mean(of_each):.3f} over {len(felt)} rows of GoEmotions {split.stem}")
        print(", ".join(f"{name} {value:.3f}" for name, value in zip(EMOTIONS, of_each)))
    print(f"\nspeed: {speed([text for text, _ in youtube]):,.0f} comments/s of one core "
          f"(language, polarity and emotion; YouTube rows)")
    print("English weights: read in {:.0f} ms, {:.1f} MB of memory".format(*loading()))


def youtube_rows() -> Labelled:
    """The committed rows: (text, label)."""
    with YOUTUBE.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def sided(rows: Sequence[Row]) -> Labelled:
    """The rows with one side: (text, side)."""
    return [(row.text, side) for row in rows if (side := only(polarities_of(row)))]


def f1(expected: Sequence[str], got: Sequence[str], classes: Sequence[str]) -> list[float]:
    """F1 = 2·tp / (2·tp + fp + fn) of each class; their mean is macro-F1."""
    right = Counter(label for label, ours in zip(expected, got) if label == ours)
    sizes, answers = Counter(expected), Counter(got)
    return [2 * right[name] / max(1, sizes[name] + answers[name]) for name in classes]


def print_polarity(title: str, rows: Labelled) -> None:
    """One line of the table."""
    expected = [label for _, label in rows]
    stock = SentimentIntensityAnalyzer()
    commonest = Counter(expected).most_common(1)[0][0]
    answers: list[Callable[[str], str]] = [
        label_of,
        lambda text: _vader_label(stock.polarity_scores(text)["compound"]),
        lambda _: commonest,
    ]
    got = [[answer(text) for text, _ in rows] for answer in answers]
    ours, vader, majority = (f1(expected, labels, POLARITIES) for labels in got)
    agreed = sum(map(str.__eq__, expected, got[0])) / len(rows)
    print(f"{title:<34}{len(rows):>7}{mean(ours):>8.3f}{mean(vader):>8.3f}{mean(majority):>10.3f}"
          f"{agreed:>9.0%}   {', '.join(f'{value:.3f}' for value in ours)}")


def label_of(text: str) -> str:
    """Our label; what is not scored counts as neutral."""
    return scoring.score(text).label or "neutral"


def print_folds(train: Path, rated: Path) -> None:
    """Macro-F1 over ``FOLDS`` folds of the training data: mean and standard deviation."""
    import train_english  # needs numpy and scikit-learn, which measuring the committed weights does not

    examples = train_english.goemotions_examples(rows_of(train)) + train_english.rated_examples(rated)
    results: dict[str, list[float]] = {}
    for fold in range(FOLDS):
        form = train_english.fit([example for n, example in enumerate(examples) if n % FOLDS != fold])
        with tempfile.TemporaryDirectory() as folder:
            english.WEIGHTS = Path(folder, "english.json")
            english.WEIGHTS.write_text(json.dumps(form), "utf-8")
            english.model.cache_clear()
            scoring.score("read the new weights")
        held_out = [example for n, example in enumerate(examples) if n % FOLDS == fold]
        for title, value in _fold(held_out, train_english.typed_in_a_hurry):
            results.setdefault(title, []).append(value)
        print(f"fold {fold + 1} of {FOLDS} done", file=sys.stderr)
    print(f"{f'macro-F1, {FOLDS} folds':<50}{'mean':>8}{'sd':>8}")
    for title, values in results.items():
        print(f"{title:<50}{mean(values):>8.3f}{stdev(values):>8.3f}")


def _fold(examples: Sequence, in_a_hurry: Callable[[str], str]) -> Iterator[tuple[str, float]]:
    """What is measured on one fold: (title, macro-F1)."""
    for source in dict.fromkeys(example.source for example in examples):
        rows = [(example.text, example.polarity) for example in examples
                if example.source == source and example.polarity]
        for how, form in (("", str), (", typed in a hurry", in_a_hurry)):
            got = [label_of(form(text)) for text, _ in rows]
            yield f"polarity, {source}{how}", mean(f1([side for _, side in rows], got, POLARITIES))
    felt = [(example.text, example.emotions[0]) for example in examples if len(example.emotions) == 1]
    for how, form in (("", str), (", typed in a hurry", in_a_hurry)):
        got = [scoring.score(form(text)).emotion for text, _ in felt]
        yield f"emotion, goemotions{how}", mean(f1([name for _, name in felt], got, list(EMOTIONS)))


def speed(texts: Sequence[str]) -> float:
    """Comments for each second of one core, over ``SPEED_SECONDS``, after the weights are loaded."""
    scoring.score(texts[0])
    done, start = 0, time.process_time()
    while time.process_time() - start < SPEED_SECONDS:
        for text in texts:
            scoring.score(text)
        done += len(texts)
    return done / (time.process_time() - start)


def loading() -> tuple[float, float]:
    """What reading the English weights takes: milliseconds of one core, and megabytes that stay."""
    english.model.cache_clear()
    start = time.process_time()
    english.model()
    milliseconds = 1000 * (time.process_time() - start)
    english.model.cache_clear()
    tracemalloc.start()
    english.model()
    megabytes = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    return milliseconds, megabytes


def _vader_label(compound: float) -> str:
    return "positive" if compound >= VADER_FROM else "negative" if compound <= -VADER_FROM else "neutral"


if __name__ == "__main__":
    main()
