"""The one door of the analysers: a comment in, its language, label, score and emotion out."""
import re
from functools import lru_cache
from typing import NamedTuple

from . import emoji, english, japanese, language

METHOD = ("English: one regression over n-grams and VADER, trained on GoEmotions and VADER's rated sentences, and own "
          "tables of idioms; Japanese: own lexicon with its conjugations; emoji: one own table; other languages are not scored")
VERSION = "3"

# A score beyond it, on either side, is a feeling; between is neutral.
FEELING_FROM = 0.25
KEYWORD_MAX_CHARACTERS = 40


class Scored(NamedTuple):
    """What a comment feels like.

    ``language``: 'en', 'ja', 'ko', 'zh', 'other', or 'none' for a text without words. ``label``:
    'positive', 'neutral', 'negative', or '' where nothing was scored. ``score``: in [-1, 1], or None.
    ``emotion``: amusement, anger, disgust, fear, joy, love, neutral, sadness, surprise, or ''.
    """

    language: str
    label: str
    score: float | None
    emotion: str


def score(text: str) -> Scored:
    """What ``text`` feels like. Any string will do; its first 2,000 characters are read.

    A language there is no analyser for is named and not scored: never called neutral.
    """
    rest, signs, bare = _apart(text)
    spoken = language.detect(bare)
    if spoken == "en":
        return _scored(spoken, *english.read(rest, signs))
    if spoken == "ja":
        return _scored(spoken, *japanese.read(rest, signs))
    if spoken == "none":
        signs = signs + emoji.emoticons(rest) + emoji.laughter(rest)
        if signs or emoji.has_picture(rest):
            return _scored(spoken, emoji.balance(signs), emoji.emotion(signs) or "neutral")
    return Scored(spoken, "", None, "")


def keywords(text: str, spoken: str) -> list[str]:
    """The content words of a comment, each once, in the order they come in.

    English: words of three letters or more, lower case, without stop words. Japanese, without a
    tokenizer: runs of two or more kanji or katakana. Of other languages: none.
    """
    if spoken not in ("en", "ja"):
        return []
    text = _apart(text)[2].lower()
    found = _JAPANESE_WORD.findall(text) if spoken == "ja" else []
    found += [word for word in (word.removesuffix("'s") for word in _LATIN_WORD.findall(text)) if len(word) > 2]
    return list(dict.fromkeys(
        word for word in found if len(word) <= KEYWORD_MAX_CHARACTERS and word not in _EMPTY_WORDS))


@lru_cache(maxsize=4)       # whoever scores a text asks for its words next
def _apart(text: str) -> tuple:
    """The prepared text without its emoji, the emoji, and its words alone."""
    rest, signs = emoji.read(language.prepare(text))
    return rest, signs, emoji.words_only(rest)


def _scored(spoken: str, value: float, feeling: str) -> Scored:
    label = "neutral"
    if value > FEELING_FROM:
        label = "positive"
    elif value < -FEELING_FROM:
        label = "negative"
    return Scored(spoken, label, round(value, 4), feeling)


# Not a run of kanji that is denied: 間違 of 間違いない would stand for its opposite.
_JAPANESE_WORD = re.compile("[\u4e00-\u9fff\u3400-\u4dbf々]{2,}+(?!い?(?:な(?:い|かっ|く|し)|(?:じゃ|では|も)な|ありませ))|[\u30a1-\u30faー]{2,}")
_LATIN_WORD = re.compile("[a-z\u00df-\u00f6\u00f8-\u024f][a-z\u00df-\u00f6\u00f8-\u024f']+[a-z\u00df-\u00f6\u00f8-\u024f]")
# Words that say nothing about what a comment is about, those of every video's comments among them.
_EMPTY_WORDS = frozenset((
    "the and you that was for are with his they this have from had not but what all were when your can said there "
    "each which she how their will other about out many then them these some her would make him has two more could "
    "who its been now than people did get may only just don't dont it's that's thats i'm i've i'll i'd you're youre "
    "can't cant didn't didnt doesn't doesnt won't wont isn't isnt wasn't wasnt aren't couldn't wouldn't shouldn't "
    "he's she's they're we're there's what's let's lets why because where also even really very much any our too "
    "yes yeah should one after before being does going got know think never ever every first here still like "
    "want need into over again few most such own same both down off through while until during between under "
    "video videos youtube channel comment comments watch watching watched lol lmao omg haha hahaha way thing things "
    "something anything everything someone anyone everyone nothing see say says saying look looking looks come came "
    "back well good great best nice love amazing always since though gonna wanna gotta made makes making take "
    "took thank thanks please guy guys man bro dude let put use used using try day time times year years lot "
    "actually literally probably maybe pretty sure right left than those them himself herself itself myself yourself "
    "theirs ours yours mine another else around without within yet ago already able may might must shall per via "
    "http https www com wow okay nah yep hey "
    "今日 昨日 明日 今回 今年 自分 本当 本当に 時間 動画 コメント チャンネル 一番 最近 最初 最後 全部 毎回 毎日 "
    "今度 何回 何度 人間 場合 以上 以下 全然 絶対 大変 普通 結構 多分 意味 感じ 今後 以前 皆様 皆さん 途中 "
    "ユーチューブ 最高 最悪 大好 素敵 綺麗 "
    "可愛 面白 上手 感動 応援 期待 感謝 素晴 一緒 ホント マジ ヤバ メッチャ スゴ コレ ソレ サン").split())
