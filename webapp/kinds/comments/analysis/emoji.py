"""Emoji, faces made of characters, and laughter: one table for every language.

The table is our own. It is read instead of VADER's descriptions, which score a thumb up as nothing
and a red heart as a heart that is red.
"""
import re
from collections.abc import Iterable
from typing import NamedTuple

# How much of a sign's weight counts beside words. A laugh may be at something or with it.
BESIDE_WORDS = 0.4
LAUGH_BESIDE_WORDS = 0.2

_GROUPS = (
    ("joy", 1.0, "😀😃😄😁😆😊🙂☺😌😋🤗🎉🎊✨🌟⭐💪🌸🌈😇🥳😎😺😸🫠🤠🎂🎁💃🕺🌞☀🍀🥂🍾🏆🥇🥈🥉🏅🪅🙆"),
    ("joy", 0.5, "😉🎶🎵🎧✌🤙👋😛😜🤪😝🌹🌺🌻🌷🌼💐🤓🤭🚀🎆🎇🪩"),
    ("love", 1.0, "🥰😍😘😗😙😚💯👍👏🙌❤🧡💛💚💙💜🖤🤍🤎🩷🩵🩶♥♡💕💖💗💓💞💘💝💟❣💌💋🙏🔥🤩😻😽🫶🫡🤝👌🤌👑🐐🫂🤟🫰💎"),
    ("love", 0.5, "🥹🙇👊✊"),
    ("amusement", 0.7, "😂🤣😹"),
    ("amusement", 0.4, "😅💀☠😏🗿🙈🙊"),
    ("sadness", -1.0, "😢😞😔😟🙁☹😥😓😩😫😣😖💔😿😪😰🥀"),
    ("sadness", -0.5, "🥺🥲😕🤕🤒😷😴🥱⚰🪦🫥🙍"),
    # Wept in sorrow and over a good song alike.
    ("sadness", -0.2, "😭"),
    ("anger", -1.0, "😡😠🤬👿💢👎🖕😤😾🚮🗑"),
    ("anger", -0.5, "🤦🙅❌🚫"),
    ("disgust", -1.0, "🤮🤢😒😑💩🤡🤥🥴"),
    # A smile turned upside down is meant that way; see ``IRONIC``.
    ("disgust", -0.8, "🙃🙄"),
    ("disgust", -0.4, "😐🫤🤨😬"),
    ("fear", -0.5, "😨😱😧😦🙀🫣👻"),
    ("surprise", 0.0, "😮😯😲😳🤯🤔🧐👀❓❗🤷🫨🫢"),
)
TABLE = {sign: (emotion, weight) for emotion, weight, signs in _GROUPS for sign in signs}
# Turns the praise it stands beside.
IRONIC = TABLE["🙄"]

_PICTURE = re.compile("[\u203c\u2049\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2934-\u2935\u2b00-\u2bff"
                      "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]")
# Skin tones and the sexes that follow a gesture are part of the sign before them.
_MODIFIER = re.compile("[\U0001f3fb-\U0001f3ff\u2640\u2642]")

# A face in parentheses, with its arms: whatever stands between them, if ``_is_face`` says so. Letters are
# arms only where no word goes on with them: (^^)つまらない.
_FACE = re.compile(
    r"(?:[\\/ヽヾΣ凸ლ┗╰┐╮ノ¯_\-٩۶୧ᕦヘ<]|(?<![a-zA-Z])[modbqcʅ]){0,3}\(([^()\n]{2,20})\)"
    r"(?:[ノ\s彡╯(]{0,4}┻[━─]+┻|[\\/ヽヾ┛╯┐┌╭¯_\-丿彡∩☞\u309aو۶୨ᕤゞง՞♪☆★♡]{1,3}"
    r"|ノ(?![ァ-ヶー])|[づつっ](?!\w)|[modbqc](?![a-zA-Z])){0,3}")
_OTHER_FACES = re.compile(r"ʕ[^ʕʔ\n]{1,8}ʔ|╯\W{1,6}┻\W?┻|[\\/]_{0,3}\(ツ\)_{0,3}[\\/]|[༼꒰][^༼༽꒰꒱\n]{1,14}[༽꒱]つ?"
                          r"|\('[Дд]⊂ヽ?|\|[ω・'`_Дд]{2,5}\)|\(?\^[_o.]?\^;+")
_PART_OF_FACE = re.compile(r"[ʕ╯ツ༼꒰|^]|\('")
# Besides signs, the letters that faces are made of; by themselves they prove none.
_FACE_CHARACTERS = re.compile(
    r"(?:\W|[_ToOxXuUvQqAnwYyiIDc03ω∀ДдεзЗЭФэノっつづヘへエロヮワメシーゝ口皿益灬人눈๑ლღ೯இ٩۶ง一À-ÖØ-öø-ſ"
    r"\u1100-\u11ff\u02b0-\u02ff\u0250-\u02af\u1d00-\u1dbf\u0c80-\u0cff\u1400-\u167f\ua000-\ua4cf])+")
_FACE_SIGNS = re.compile(
    # Mouths and eyes that nothing else has
    r"[∀▽≧≦◡ᴗ‿ᴥ皿∇╥◕◠◔益ಠಥ꒳ヮᗜᐛᗣ‸\u309a]|[ωДдεз]\W|\W[ωДдεз]|<3|:3"
    # Two eyes alike, of a sign that is no ASCII, of a letter about a mouth, of what is often in texts too
    r"|([^\w\s!-/:-@\[-`{-~、。「」『』×○◯])(?!\1)\S{1,5}?\1|・・|([ToOxXuUQqi])[_.ωДдwWoOA^\-□ロ]{1,2}\2|([^\s_])_+\3"
    r"|oO|Oo|o_O|O_o"
    r"|TT|;[_o.^△]?;|>[_.~o]?<|\^[^\s^]{0,3}\^|\^_-|^_[_;|]|([.・*@$\-ー=])_+\4|([\-ー])[_.ω^oへヘ3人ー]+\5|=\^|[ÒòÔô]_+[Óóô]"
    r"|'[^'`]{1,5}`|`[^'`]{1,5}'|[つっノ][_ωДд]|눈_눈")
_NO_FACE = re.compile(r"_{3,}|[.\-=~]+|(?!(?:TT|[TQ][oOA][TQ]|[oOuU][wv][oOuU]|oO|Oo)$)[A-Za-z0-9]+")
_MOODS = (
    # The first that matches wins. ´ is read as ', so that brows are told: '…` are raised, `…' drawn together.
    (re.compile(r"[┐╮].*[┌╭]|ツ|ヽ\(ー|^\||ー'"), ("neutral", 0.0)),
    (re.compile(r"#|メ|╬|ꐦ|҂|皿|益|ಠ|凸|┻|[Òò]_+[Óó]|`(?!・ω|∀|▽|[・ー])[^'`]{1,4}'|`з|`ε'"), ("anger", -0.8)),
    (re.compile(r"\^[_o.ー\-]?\^;"), ("fear", -0.2)),
    (re.compile(r"'[^'`]{0,2}(?:[Дд△へ]|[・•][ω_〈^△へ‸][・•]|_|-ω-)|▽T|\|\|"), ("sadness", -0.4)),
    (re.compile(r"Σ\(|[°゚\u309a◎⊙○・OO*][□ロoOo0△][°゚\u309a◎⊙○・OO*]|[°゚\u309a◎⊙][Дд_][°゚\u309a◎⊙]"
                r"|([oO○0*@⊙])_+[oO○0*@⊙]|[・•][_ー-][・•]"),
     ("surprise", 0.0)),
    (re.compile(r"T|;\S{1,2};|;\)|\(;|╥|ಥ|இ|>[_.~Дд]?<|[つっノ][Дд_]|[Qq]\S[Qq]"
                r"|i[Дд]i|゚'|[〈‸◞へヘᗣ]|\.[_]+\.|([xXu])[_.]\1|ω・`"),
     ("sadness", -0.6)),
    (re.compile(r"\(__\)"), ("love", 0.3)),
    (re.compile(r"Д|д"), ("surprise", 0.0)),
    (re.compile(r"-_-|=_=|¬_|一_|ー_+ー|눈_|-\.-|\(:3"), ("disgust", -0.4)),
    (re.compile(r"[♡♥]|[εз3]`|<3|[\-◡][3ε][\-◡]"), ("love", 1.0)),
)
_GLAD = ("joy", 0.7)

# ASCII faces, for the texts that VADER (which knows them) does not read.
_EMOTICONS = (
    (re.compile(r"(?<![\w:])(?:[:;=]'?-?[)\]D3]|[xX]D|<3|\^_*\^|\(:)(?![a-zA-Z])"), ("joy", 0.7)),
    (re.compile(r"(?<![\w:])(?:[:=]'?-?[(\[/]|T[_.]T|;_;|</3|orz|OTL)(?![a-zA-Z/])"), ("sadness", -0.6)),
    # ㅠ and ㅜ, as NFKC leaves them, weep.
    (re.compile("[\u1172\u116e]{2,}"), ("sadness", -0.4)),
)
_PART_OF_EMOTICON = re.compile("[:;=<^(\u1172\u116e]|[xX]D|T[_.]T|orz|OTL")
_LAUGHTER = re.compile(r"(?<![a-zA-Z])[wW]+(?![a-zA-Z.])|大草原|草(?:生え(?:る|た)?|不可避)?(?![むぶ原木花刈取食履書案津加野餅])"
                       r"|\(笑\)|(?<![一-龠])笑+(?![一-龠ぁ-ん])|(?<![a-zA-Z])(?:k{4,}|(?:ja){2,}j?)(?![a-zA-Z])"
                       # ㅋ and ㅎ as NFKC leaves them
                       r"|[\u110f\u1112]{2,}|哈{2,}")
_PART_OF_LAUGH = re.compile(r"[wW](?![a-zA-Z])|kkkk|jaja|[草笑哈\u110f\u1112]")
_LAUGH = ("amusement", 0.5)

Sign = tuple[str, float]


class Reading(NamedTuple):
    """The text without its emoji and faces, and what each of them says: (emotion, weight in [-1, 1])."""

    rest: str
    signs: list[Sign]


def read(text: str) -> Reading:
    """The emoji and faces of a prepared text, taken out of it.

    An emoji that is not in the table stays in the text for whoever reads it next.
    """
    signs: list[Sign] = []
    if "(" in text:
        text = _FACE.sub(lambda match: _face(match[0], signs) if _is_face(match[1]) else match[0], text)
    # The search for the others is not cheap.
    if _PART_OF_FACE.search(text):
        text = _OTHER_FACES.sub(lambda match: _face(match[0], signs), text)
    if not text.isascii():
        text = _PICTURE.sub(lambda match: _picture(match[0], signs), _MODIFIER.sub("", text))
    return Reading(text, signs)


def has_picture(text: str) -> bool:
    """True where an emoji of any kind is in the text, in the table or not."""
    return not text.isascii() and bool(_PICTURE.search(text))


def words_only(text: str) -> str:
    """The text without emoji, ASCII faces and laughs: what its language shows in."""
    if not text.isascii():
        text = _PICTURE.sub(" ", text)
    # Most texts hold no face, and the search for one is not cheap.
    if _PART_OF_EMOTICON.search(text):
        for pattern, _ in _EMOTICONS:
            text = pattern.sub(" ", text)
    return _LAUGHTER.sub(" ", text) if _PART_OF_LAUGH.search(text) else text


def emoticons(text: str) -> list[Sign]:
    """What the ASCII faces of a text say, such as ``:)`` and ``T_T``."""
    return [sign for pattern, sign in _EMOTICONS for _ in pattern.findall(text)]


def laughter(text: str) -> list[Sign]:
    """One sign for each laugh: 'www', 草, (笑), ㅋㅋㅋ, 哈哈哈. For texts that are not English."""
    return [_LAUGH for _ in _LAUGHTER.findall(text)]


def balance(signs: Iterable[Sign]) -> float:
    """The score of signs alone, in [-1, 1]: the sum over the root of how many there are."""
    weights = [weight for _, weight in signs]
    if not weights:
        return 0.0
    return max(-1.0, min(1.0, sum(weights) / len(weights) ** 0.5))


def beside_words(signs: Iterable[Sign]) -> float:
    """What signs add to the score of the words they stand beside."""
    return balance((name, weight * (LAUGH_BESIDE_WORDS if name == "amusement" else BESIDE_WORDS))
                   for name, weight in signs)


def emotion(signs: Iterable[Sign]) -> str:
    """The emotion most of the signs agree on; '' without one. The earlier wins a tie."""
    totals: dict[str, float] = {}
    for name, weight in signs:
        # Surprise has no side, but it is there.
        totals[name] = totals.get(name, 0.0) + (abs(weight) or 0.4)
    return max(totals, key=totals.__getitem__, default="")


def _is_face(body: str) -> bool:
    """Whether what stands in parentheses is a face: of faces' characters alone, and one sign that only they have."""
    body = "".join(body.split())
    return bool(_FACE_CHARACTERS.fullmatch(body) and _FACE_SIGNS.search(body) and not _NO_FACE.fullmatch(body)
                or body == "__")


def _face(face: str, signs: list[Sign]) -> str:
    face = "".join(face.split())
    signs.append(next((sign for pattern, sign in _MOODS if pattern.search(face)), _GLAD))
    return " "


def _picture(sign: str, signs: list[Sign]) -> str:
    if sign not in TABLE:
        return sign
    signs.append(TABLE[sign])
    return " "
