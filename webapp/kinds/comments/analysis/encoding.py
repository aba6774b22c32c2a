"""Which encoding a file's bytes are in."""
import codecs
import math
import re
import unicodedata
from collections import Counter

from .letters import ENCODINGS
from .refusals import Unreadable, unsupported

CHUNK_BYTES = 1 << 20
SAMPLE_BYTES = 8_000
WORD_BYTES = 40             # that are looked at before the first byte that is not ASCII
_WORD = bytes(range(0x30, 0x80))
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1f]")


def encoding_of(path, head):
    """``(encoding, errors)``; ``head`` is how the file begins. A byte order mark decides; then ASCII as it is in
    UTF-16 and UTF-32 and the escapes of ISO-2022-JP; then UTF-8, a few broken characters allowed; then, of the code
    pages of the world, the one in which the file would be the most usual text, if it is by far. Raises
    ``Unreadable``."""
    valid = _decodes(path, "utf-8")
    name = (next((name for mark, name in _MARKS if head.startswith(mark)), None) or _utf32(head)
            or _utf16(head, valid))
    if name:
        # Incremental: the head may end within a character.
        if _is_noise(codecs.getincrementaldecoder(name)("replace").decode(head)):
            raise _not_told()
        return name, "strict" if _decodes(path, name) else "replace"
    if head.isascii() and re.search(rb"\x1b(\$[@B]|\(I)", head):     # begins kanji or half-width kana; valid UTF-8
        if not _decodes(path, "iso2022_jp_ext"):     # nor could its errors be replaced: it stops at some
            raise _not_told()
        return "iso2022_jp_ext", "strict"
    if valid:
        return "utf-8", "strict"
    sample = _sample(path)
    text = re.sub(r"[\0-\x7f]", "", codecs.getincrementaldecoder("utf-8")("replace").decode(sample))
    if text and len(text) >= 10 * text.count("\ufffd"):
        return "utf-8", "replace"       # a few broken characters in a good file, or one cut in two
    if len(_CONTROLS.findall(head)) > len(head) / 100:
        raise unsupported({"en": "a binary file", "ja": "バイナリファイル"})
    if len(set(sample)) == 1 and len(sample) > 3:       # one byte again and again: no word
        raise _not_told()
    return _likeliest(path, sample), "strict"


def _not_told():
    return Unreadable("BAD_ENCODING",
                      "The characters of this file cannot be read. Save it again as UTF-8 (in Excel: "
                      "'CSV UTF-8') and upload that.",
                      "ファイルの文字コードを読み取れません。UTF-8（Excelでは「CSV UTF-8」）で保存し直して、"
                      "アップロードしてください。")


def _decodes(path, encoding):
    """Whether the whole file does."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with open(path, "rb") as file:
        try:
            while chunk := file.read(CHUNK_BYTES):
                decoder.decode(chunk)
            decoder.decode(b"", True)
        except UnicodeError:
            return False
    return True


def _sample(path):
    """The file's first words that are not ASCII, each once, with a space between: no byte below '0' is a part of a
    character. A comment that is there a hundred times proves no more than one."""
    words, left = {}, SAMPLE_BYTES
    with open(path, "rb") as file:
        while left > 0 and (chunk := file.read(CHUNK_BYTES)):
            for found in re.finditer(rb"[\x80-\xff][^\0-/]*", chunk):
                before = chunk[max(0, found.start() - WORD_BYTES):found.start()]
                word = (before[len(before.rstrip(_WORD)):] + found[0])[:left]
                if word not in words:
                    words[word] = True
                    left -= len(word) + 1
                if left <= 0:
                    break
    return b" ".join(words)


# --- Unicode without its mark ---------------------------------------------------------------------

def _utf32(head):
    """UTF-32 without its mark: no character is beyond U+10FFFF."""
    whole = head[:len(head) // 4 * 4]
    for order, first, second in (("utf-32-le", 3, 2), ("utf-32-be", 0, 1)):
        if whole and not any(whole[first::4]) and max(whole[second::4]) <= 0x10:
            return order
    return None


def _utf16(head, is_utf8):
    """UTF-16 without its mark: the byte order in which its lines end, or, of a single line, every fifth character is
    ASCII. Other bytes 10 belong to characters like 上, but not most of them. Zeros that strayed into UTF-8 must not
    count: there every fifth byte has to be one or another control."""
    if is_utf8 and len(_CONTROLS.findall(head)) < len(head) / 5:
        return None
    for order in ("utf-16-le", "utf-16-be"):
        text = head[:len(head) // 2 * 2].decode(order, "replace")
        ends, tens = text.count("\n"), head.count(b"\n")
        ascii_share = len(re.findall(r"[ -~]", text)) / max(1, len(text))
        if (4 * ends >= tens if ends else ascii_share >= 0.2) and not _is_noise(text):
            return order
    return None


def _is_noise(text):
    """Whether more than one in fifty characters is one that no text has; new emoji may not be known yet."""
    strange = ("Cc", "Cn", "Co", "Cs")
    return sum(one == "\ufffd" or one not in "\t\n\r\v\f\x85\0" and unicodedata.category(one) in strange
               for one in text) > len(text) / 50


# --- the code pages of the world -------------------------------------------------------------------

NEEDED_BITS = 2             # by which the likeliest must be likelier than any that gives another text
BITS_MAX, BYTE_BITS_MAX = 14, 9.5       # for each character, where it is a byte: more is no text in any language
_ASCII_BITS = 6
_LOWER, _UPPER = ("".join(filter(case, map(chr, range(0x80, 0x530)))) for case in (str.islower, str.isupper))
_LATIN = "À-ÖØ-öø-ɏ"
_SCRIPTS = "\u0370-\u03ff\u0400-\u052f\u0590-\u06ff\u0e00-\u0e7f"      # Greek, Cyrillic, Hebrew, Arabic, Thai
_CJK = "\u3041-\u9fff가-힣\uff66-\uff9f"
# What the letters around make unlikely, and by how many bits. Patterns as text: compiled only for a file that is not
# Unicode, as most are.
_ODD = (
    (8, f"(?<=[a-z{_LOWER}])[{_UPPER}]"),                                   # a capital within a word
    (4, f"(?<=[A-Z{_UPPER}])(?:[{_UPPER}](?=[a-z])|(?<=[A-Z{_UPPER}]{{2}})[{_LOWER}])"),
    (4, f"(?<=[{_LATIN}])[{_LATIN}]"),                                      # words have ASCII letters, too
    (5, f"(?<![^\\W\\d_])[{_LATIN}]+(?![^\\W\\d_])"),
    (5, f"(?<=\\d)[{_LATIN}{_SCRIPTS}]|[{_LATIN}{_SCRIPTS}](?=\\d)"),
    (8, f"(?<=[a-zA-Z{_LATIN}])[{_SCRIPTS}]|[{_SCRIPTS}](?=[a-zA-Z{_LATIN}])"),
    (4, f"(?<=[a-zA-Z])[{_CJK}]|[{_CJK}](?=[a-zA-Z])"),
    (5, f"(?<=[a-zA-Z])[{_CJK}](?![{_CJK}])"),
    (6, "(?<=\\w)[„‘«¿¡‹‚]|[”»›](?=\\w)"),      # quotes that open behind a word, or close before one
    (4, "(?<=\\w)“|(?<!\\w)’"),
    (6, "(?<=[^\\W\\d_])[^\\w\\s\0-\x7f’´·…—](?=[^\\W\\d_])"),
    (3, "[£€](?!\\d)"), (5, "œ(?!u)"),
    (6, "(?<![｡-ﾟ])[｡-ﾟ](?![｡-ﾟ])"),
)


def _likeliest(path, sample):
    """The encoding in which the sample would be the most usual text: the one with the fewest bits in all."""
    found = []
    for place, (name, bits, languages) in enumerate(ENCODINGS):
        text = sample.decode(name, "replace")
        odd = sum(bits * len(re.findall(pattern, text)) for bits, pattern in _ODD)
        found.append((bits + odd + min(_bits(text, language) for language in languages), place, name, text))
    found.sort()
    bits, _, name, text = next((one for one in found if _decodes(path, one[2])), (0, 0, "", ""))
    foreign = re.sub(r"[\0-\x7f]", "", text)
    usual = len(foreign) * (BYTE_BITS_MAX if len(text) == len(sample) else BITS_MAX)
    if not name or bits > usual + _ASCII_BITS * len(re.findall(r"[!-\x7f]", text)):
        raise _not_told()
    if any(one[3] != text and one[0] < bits + NEEDED_BITS and _decodes(path, one[2]) for one in found):
        raise _not_told()
    return name


def _bits(text, language):
    costs = _costs(language)
    return sum(number * (costs.get(one) or _other_bits(one)) for one, number in Counter(text).items())


_known = {}


def _costs(language):
    """The bits of each of its characters: the tenth part of them that is the most common takes a good third."""
    if language not in _known:
        costs = _known[language] = {}
        for share, letters in language:
            for rank, letter in enumerate(letters):
                bits = math.log2((rank + len(letters) / 10) * 2.4 / share)
                costs.setdefault(letter, bits)
                if len(letter.upper()) == 1:
                    costs.setdefault(letter.upper(), bits + 2)
    return _known[language]


def _other_bits(one):
    """Of a character that its language rarely has."""
    if one <= "\x7f":
        return _ASCII_BITS if one > " " else 0.01
    kind = unicodedata.category(one)
    if one == "\ufffd" or kind in ("Cc", "Cn", "Co"):
        return 24
    return 16 if one >= "\u3000" else 11 if kind[0] == "L" else 14
