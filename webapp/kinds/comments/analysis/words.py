"""Which words the comments hold, and which of them set one side apart."""
import math

LABELS = ("positive", "neutral", "negative")
KEYWORDS_MAX = 12
HELD_MAX = 60_000               # beyond it the rarer half is forgotten: a hostile file cannot fill the memory
WORD_CHARACTERS_MAX = 40
KEYWORD_Z_MIN = 1.0             # a word worth showing; nothing is claimed to be proven
KEYWORD_COMMENTS_MIN = 2, 3      # among few comments, and among many
MANY_VOICES = 30
PRIOR_COMMENTS = 100


class Words:
    """``add`` the words of one comment after another; then ask. A comment is the unit: a word said ten times in
    it counts once, and so does one that one ``author`` alone goes on saying."""

    def __init__(self):
        self.words = {}         # (language, word) → comments with it, by label, and the last one's author
        self.voices = {}        # language → comments, by label

    def add(self, language, label, words, author=None):
        column = LABELS.index(label)
        self.voices.setdefault(language, [0, 0, 0])[column] += 1
        for word in dict.fromkeys(words):
            if len(word) > WORD_CHARACTERS_MAX:
                continue
            counts = self.words.get((language, word))
            if counts is None:
                counts = self.words[language, word] = [0, 0, 0, None]
            if author is None or author != counts[3]:
                counts[column] += 1
                counts[3] = author
        if len(self.words) > HELD_MAX:
            self._forget()

    def _forget(self):
        """Half of them, so that it takes as many new words until the next time, however common those that stay are."""
        common = sorted(self.words.items(), key=lambda one: -sum(one[1][:3]))
        self.words = dict(common[:HELD_MAX // 2])

    def keywords(self):
        """Words that set one side apart, the clearest first; see ``log_odds``."""
        found = {"positive": [], "negative": []}
        for (language, word), (*by, _) in self.words.items():
            z = log_odds(by, self.voices[language])
            side = "positive" if z > 0 else "negative"
            here = by[LABELS.index(side)]
            many = sum(self.voices[language]) >= MANY_VOICES
            if abs(z) >= KEYWORD_Z_MIN and here >= KEYWORD_COMMENTS_MIN[many]:
                found[side].append({"word": word, "language": language, "comments": sum(by),
                                    "on_this_side": here, "z": round(abs(z), 2)})
        return {side: sorted(words, key=lambda one: (-one["z"], -one["comments"], one["word"]))[:KEYWORDS_MAX]
                for side, words in found.items()}

    def table(self, most):
        """The ``most`` common words with their comments by label; ``z``: positive where they are more
        common in positive comments."""
        ranked = sorted(self.words.items(), key=lambda one: (-sum(one[1][:3]), one[0]))[:most]
        return [{"word": word, "language": language, "comments": sum(by), **dict(zip(LABELS, by)),
                 "z": round(log_odds(by, self.voices[language]), 2)} for (language, word), (*by, _) in ranked]


def log_odds(by, voices):
    """How much more common a word is in positive comments than in negative ones: log-odds of a comment
    holding it, with an informative Dirichlet prior, as a z-score (Monroe, Colaresi & Quinn 2008,
    'Fightin' Words', eq. 16–22, with the comment as the unit).

    Unlike a word among all words, a word among comments may be in most of them: the variance needs the
    comments without it too."""
    prior = PRIOR_COMMENTS * (sum(by) + 0.5) / (sum(voices) + 1)
    odds = variance = 0.0
    for sign, column in ((1, 0), (-1, 2)):
        holding = by[column] + prior
        without = voices[column] + PRIOR_COMMENTS - holding
        odds += sign * math.log(holding / without)
        variance += 1 / holding + 1 / without
    return odds / math.sqrt(variance)
