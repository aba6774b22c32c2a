"""Which encoding a file's bytes are in."""
import codecs
import re

from .refusals import Unreadable, unsupported

CHUNK_BYTES = 1 << 20
SAMPLE_CHARACTERS = 20_000


def encoding_of(path, head):
    """``(encoding, errors)``. A byte order mark decides; then zeros in every second byte; then the
    first of UTF-8, the Japanese code pages and cp1252 that decodes the whole file and looks right."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"),
                       (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
                       (codecs.BOM_UTF16_BE, "utf-16")):
        if head.startswith(mark):
            return name, "strict" if _decodes(path, name)[0] else "replace"
    valid, sample = _decodes(path, "utf-8")
    if name := _utf16(head, valid):
        return name, "strict" if _decodes(path, name)[0] else "replace"
    if valid:
        return "utf-8", "strict"
    legacy = [(_japanese(text), name) for name in ("cp932", "euc_jp")
              for ok, text in [_decodes(path, name)] if ok]
    likely, name = max(legacy, default=(0, ""))
    if likely >= 0.2:
        return name, "strict"
    _, sample = _decodes(path, "utf-8", "replace")
    if len(sample.replace(" ", "")) >= 10 * sample.count("\ufffd"):
        return "utf-8", "replace"       # a few broken characters in a good file, or one cut in two
    ok, sample = _decodes(path, "cp1252")
    if ok and _western(head, sample):
        return "cp1252", "strict"
    if head.count(b"\0") or len(re.findall(rb"[\x01-\x08\x0e-\x1f]", head)) > len(head) / 100:
        raise unsupported({"en": "a binary file", "ja": "バイナリファイル"})
    raise Unreadable("BAD_ENCODING",
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
    cp932 gives nothing else, and Latin text gives single ones."""
    full = len(re.findall(r"[\u3000-\u30ff\uff01-\uff60]", sample))
    half = sum(map(len, re.findall(r"[\uff61-\uff9f]{3,}", sample)))
    return (full + 0.3 * half) / (len(sample) - sample.count(" ")) if sample.strip() else 0


def _western(head, sample):
    letters = len(re.findall(r"[À-ÖØ-öø-ÿŠšŽžŒœŸ“”‘’–—…€«»¡¿°ª\xa0º ]", sample))
    high = len(re.findall(rb"[\x80-\xff]", head))
    return letters >= 0.9 * len(sample) and high <= 0.3 * len(head)
