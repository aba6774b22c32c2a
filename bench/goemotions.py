"""The rows of GoEmotions (Demszky et al. 2020, CC BY 4.0), and its 28 labels as the classes used here."""
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LABELS = (
    "admiration amusement anger annoyance approval caring confusion curiosity desire disappointment disapproval "
    "disgust embarrassment excitement fear gratitude grief joy love nervousness optimism pride realization relief "
    "remorse sadness surprise neutral"
).split()

# The authors' own grouping (sentiment_mapping.json); what they call ambiguous has no side.
POLARITIES = {
    "positive": "admiration amusement approval caring desire excitement gratitude joy love optimism pride relief",
    "negative": "anger annoyance disappointment disapproval disgust embarrassment fear grief nervousness remorse "
                "sadness",
    "neutral": "neutral",
    "ambiguous": "confusion curiosity realization surprise",
}
EMOTIONS = {
    "joy": "joy excitement optimism pride relief desire",
    "love": "love admiration approval caring gratitude",
    "amusement": "amusement",
    "surprise": "surprise realization confusion curiosity",
    "sadness": "sadness grief disappointment remorse",
    "anger": "anger annoyance disapproval",
    "disgust": "disgust",
    "fear": "fear nervousness embarrassment",
    "neutral": "neutral",
}


class Row(NamedTuple):
    """A comment and the names of its labels."""

    text: str
    labels: tuple[str, ...]


def rows_of(path: Path, labels: list[str] | None = None) -> Iterator[Row]:
    """The rows of a split: text, label numbers, id, tab-separated. ``labels``: the names by number."""
    names = labels or LABELS
    for line in path.read_text("utf-8").splitlines():
        text, numbers, _ = line.split("\t")
        yield Row(text, tuple(names[int(number)] for number in numbers.split(",")))


def polarities_of(row: Row) -> set[str]:
    """The sides of a row: positive, negative, neutral; none for a row with an ambiguous label."""
    found = {_POLARITY_OF[label] for label in row.labels}
    return set() if "ambiguous" in found else found


def emotions_of(row: Row) -> set[str]:
    """The emotions of a row, of the nine."""
    return {_EMOTION_OF[label] for label in row.labels}


def only(classes: set[str]) -> str | None:
    """The class of a row that has one; None for a row with none or with several."""
    return next(iter(classes)) if len(classes) == 1 else None


_POLARITY_OF = {label: name for name, labels in POLARITIES.items() for label in labels.split()}
_EMOTION_OF = {label: name for name, labels in EMOTIONS.items() for label in labels.split()}
