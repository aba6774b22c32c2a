"""Which encoding a file's bytes are in."""
import codecs
import re

from .refusals import Unreadable, unsupported

CHUNK_BYTES = 1 << 20
SAMPLE_CHARACTERS = 20_000
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The standard's EUC-JP lacks the circled numbers and the like of NEC's row 13, which its successor has.
_JAPANESE = ("cp932", "euc_jp", "euc_jis_2004")


def encoding_of(path, head):
    """``(encoding, errors)``; ``head`` is how the file begins. A byte order mark decides; then zeros in
    the places of UTF-16 and UTF-32 and the escapes of ISO-2022-JP; then the first of UTF-8, the code
    pages of Japan, Korea and western Europe that decodes the whole file and looks right. Raises
    ``Unreadable``."""
    valid, _ = _decodes(path, "utf-8")
    name = (next((name for mark, name in _MARKS if head.startswith(mark)), None) or _utf32(head)
            or _utf16(head, valid))
    if name:
        return name, "strict" if _decodes(path, name)[0] else "replace"
    if head.isascii() and re.search(rb"\x1b(\$[@B]|\(I)", head):     # begins kanji or half-width kana; valid UTF-8
        if not _decodes(path, "iso2022_jp_ext")[0]:     # nor could its errors be replaced: it stops at some
            raise _not_told()
        return "iso2022_jp_ext", "strict"
    if valid:
        return "utf-8", "strict"
    legacy = [(_japanese(text), -place, name) for place, name in enumerate(_JAPANESE)
              for ok, text in [_decodes(path, name)] if ok]
    likely, _, name = max(legacy, default=(0, 0, ""))
    if likely >= 0.2:
        return name, "strict"
    _, sample = _decodes(path, "utf-8", "replace")
    if len(sample.replace(" ", "")) >= 10 * sample.count("\ufffd"):
        return "utf-8", "replace"       # a few broken characters in a good file, or one cut in two
    if b"\0" in head or len(re.findall(rb"[\x01-\x08\x0e-\x1f]", head)) > len(head) / 100:
        raise unsupported({"en": "a binary file", "ja": "バイナリファイル"})
    if name := _korean(path) or _western(path, head):
        return name, "strict"
    raise _not_told()


def _not_told():
    return Unreadable("BAD_ENCODING",
                      "The characters of this file cannot be read. Save it again as UTF-8 (in Excel: "
                      "'CSV UTF-8') and upload that.",
                      "ファイルの文字コードを読み取れません。UTF-8（Excelでは「CSV UTF-8」）で保存し直して、"
                      "アップロードしてください。")


def _decodes(path, encoding, errors="strict"):
    """Whether the whole file decodes, and its first non-ASCII characters, with a space for what is
    between."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    sample = []
    taken = 0
    with open(path, "rb") as file:
        try:
            while chunk := file.read(CHUNK_BYTES):
                text = decoder.decode(chunk)
                if taken < SAMPLE_CHARACTERS and not text.isascii():
                    sample.append(re.sub(r"[\x00-\x7f]+", " ", text)[:SAMPLE_CHARACTERS])
                    taken += len(sample[-1])
            decoder.decode(b"", True)
        except UnicodeError:
            return False, ""
    return True, "".join(sample)


def _utf32(head):
    """UTF-32 without its mark: no character is beyond U+10FFFF."""
    whole = head[:len(head) // 4 * 4]
    for order, first, second in (("utf-32-le", 3, 2), ("utf-32-be", 0, 1)):
        if whole and not any(whole[first::4]) and max(whole[second::4]) <= 0x10:
            return order
    return None


def _utf16(head, is_utf8):
    """UTF-16 without its mark: the byte order in which kana and ASCII appear. Zeros that strayed into
    UTF-8 must not count: there every fifth byte has to be one."""
    if is_utf8 and head.count(0) < len(head) / 5:
        return None

    def usual(order):
        text = head[:len(head) // 2 * 2].decode(order, "replace")
        return len(re.findall(r"[\t\n\r -~\u3000-\u30ff]", text)) / max(1, len(text))
    share, order = max((usual(order), order) for order in ("utf-16-be", "utf-16-le"))
    return order if share > 0.2 else None


def _japanese(sample):
    """The share of kana and full-width signs. Half-width kana in a row count for less: EUC-JP read as
    cp932 gives nothing else, and Latin text gives single ones. Chinese read so gives them among
    characters for private use."""
    letters = len(sample) - sample.count(" ")
    full = len(re.findall(r"[\u3000-\u30ff\uff01-\uff60]", sample))
    half = sum(map(len, re.findall(r"[\uff61-\uff9f]{3,}", sample)))
    if not letters or full < 0.05 * letters and re.search("[\ue000-\uf8ff]", sample):
        return 0
    return (full + 0.3 * half) / letters


def _korean(path):
    """Chinese read so has as many other characters as hangul; accents of the west give single ones."""
    ok, sample = _decodes(path, "cp949")
    letters = len(sample) - sample.count(" ")
    return "cp949" if ok and letters and sum(map(len, re.findall("[가-힣]{2,}", sample))) >= 0.7 * letters else None


def _western(path, head):
    """Windows' code page or the old Macintosh's, whichever gives more of the usual letters: most bytes
    mean a letter in both."""
    if len(re.findall(rb"[\x80-\xff]", head)) > 0.3 * len(head):
        return None
    found = []
    for name in ("mac_roman", "cp1252"):
        ok, sample = _decodes(path, name)
        usual = len(re.findall(r"[À-ÖØ-öø-ÿ“”‘’–—…«»¡¿ ]", sample))
        if ok and usual + len(re.findall(r"[ŠšŽžŒœŸ€°ª\xa0º]", sample)) >= 0.9 * len(sample):
            found.append((usual / len(sample), name))
    return max(found)[1] if found else None
