"""What people paste for a video, to the video's id: so that spelling never matters afterwards.

Hosts are parsed and compared, never searched for: `youtube.com.evil.example` is another site. Everything here takes
a time linear in the text, which is bounded.
"""
import re
import unicodedata
from urllib.parse import parse_qs, urlsplit

TEXT_CHARACTERS_MAX = 2_000
HOST_CHARACTERS_SHOWN_MAX = 60
# An address may hold another (a redirect to a consent page to a sign-in to a video).
DEPTH_MAX = 5
PARAMETERS_MAX = 100

_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_ID_START = re.compile(r"[A-Za-z0-9_-]*")
# What ends an address in a running text. A video's address holds none of these.
_SEPARATORS = re.compile(r"""[\s<>"'()\[\]{}|\\^`「」『』【】〈〉《》〔〕、。“”‘’„«»]+""")
# Not behind = or /: there it is a part of the address around it.
_SCHEME = re.compile(r"(?<![=/?&:%])(?=https?://)", re.IGNORECASE)
# YouTube's own on Android and iOS: with the id, an address, or only what follows the host in one. 'YouTube:' alone is a
# word of a running text.
_APP = re.compile(r"(?<![\w.=/?&:%-])(?:vnd\.youtube(?:\.launch)?:/{0,3}|youtube:/{1,3}|android-app://"
                  r"com\.google\.android\.[a-z.]{0,20}youtube[a-z.]{0,20}/[a-z.]{4,12}/|"
                  r"ios-app://\d{1,12}/[a-z.]{4,12}/)", re.IGNORECASE | re.ASCII)
# Where running Japanese, Chinese or Korean text meets an address without a blank.
_SCRIPT_CHANGE = re.compile(r"(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]):?(?=[A-Za-z0-9])")
_PREFIX = re.compile(r"(?:[A-Za-z]{1,10}:)?/{0,3}")
_HOST = re.compile(r"(?:[^\W_]|[-_.])+\.(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{1,59})\.?")
_ENTITIES = (("&amp;", "&"), ("&amp;", "&"), ("&#38;", "&"), ("&quot;", '"'), ("&#34;", '"'), ("&#39;", "'"),
             ("&lt;", "<"), ("&gt;", ">"))

_PLAYERS = {"youtube.com", "www.youtube.com", "m.youtube.com", "music.youtube.com", "gaming.youtube.com",
            "studio.youtube.com", "youtube-nocookie.com", "www.youtube-nocookie.com", "youtubekids.com",
            "www.youtubekids.com", "youtu.be", "www.youtu.be", "youtube.googleapis.com", "www.youtubeeducation.com"}
_IMAGES = re.compile(r"i[1-9]?\.ytimg\.com|img\.youtube\.com")
# Pages that only lead on, to the address that one of their parameters holds.
_GUIDES = {"consent.youtube.com", "accounts.youtube.com", "consent.google.com", "accounts.google.com", "google.com",
           "www.google.com"}
_LEADING = ("u", "q", "url", "continue", "next")
_BEFORE_ID = {"shorts", "live", "embed", "v", "e", "vi", "vi_webp", "an_webp", "watch", "video", "watch_popup",
              "source"}
# Eleven letters each, and no ids.
_PLAYERS_WITHOUT_ID = {"videoseries": "playlist", "live_stream": "channel"}
_PAGES = {"playlist": "playlist", "show": "playlist", "course": "playlist", "channel": "channel", "c": "channel",
          "user": "channel", "clip": "clip", "post": "post", "results": "list", "feed": "list", "hashtag": "list",
          "": "list", "shorts": "list", "live": "list", "gaming": "list", "trending": "list", "explore": "list"}

_WHAT_TO_DO = ("Open the video itself, press “Share” and paste the address it gives.",
               "動画のページを開き、「共有」で表示されるアドレスを貼り付けてください。")
_REFUSALS = {
    "playlist": ("This is the address of a playlist, not of one video.", "再生リストのアドレスで、1本の動画のアドレスではありません。"),
    "channel": ("This is the address of a channel, not of one video.", "チャンネルのアドレスで、1本の動画のアドレスではありません。"),
    "clip": ("This is the address of a clip; comments belong to the whole video.",
             "クリップのアドレスです。コメントは元の動画に付いています。"),
    "post": ("This is the address of a post, not of a video.", "投稿のアドレスで、動画のアドレスではありません。"),
    "list": ("This is a page of YouTube with many videos, not one video.", "動画の一覧などのページで、1本の動画のアドレスではありません。"),
    "page": ("This is a page of YouTube, but not of a video.", "YouTubeのページですが、動画のページではありません。"),
    "cut_off": ("The video’s id in this address does not have 11 characters: was it cut off?",
                "アドレスに含まれる動画IDが11文字ではありません。途中で切れていませんか。"),
    "several": ("Several different videos are named here: give one.", "複数の動画が含まれています。1本だけ指定してください。"),
    "nothing": ("There is no address of a YouTube video here.", "YouTubeの動画のアドレスが見つかりません。"),
    "too_long": (f"This is longer than {TEXT_CHARACTERS_MAX:,} characters.", f"{TEXT_CHARACTERS_MAX:,}文字を超えています。"),
    "other_site": ("This leads to {host}, which is not YouTube.", "{host} はYouTubeのアドレスではありません。"),
}


class NotAVideo(ValueError):
    """``reason``: a key of the refusals; ``message``: what it is and what to do, ``{"en", "ja"}``."""

    def __init__(self, reason, host=""):
        self.reason = reason
        said, todo = _REFUSALS[reason], ("", "") if reason == "several" else _WHAT_TO_DO
        self.message = {lang: " ".join(filter(None, (text.format(host=host), do))) if lang == "en" else
                        text.format(host=host) + do for lang, text, do in zip(("en", "ja"), said, todo, strict=True)}
        super().__init__(self.message["en"])


def video_id(text: str) -> str:
    """The 11-character id of the one video that ``text`` names: an address of any shape, the text of a share
    button around one, an embed code, or the id itself. Raises ``NotAVideo``."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise NotAVideo("too_long")
    text = _tidy(text)
    if bare := _bare(text):
        return bare
    found, refusals = [], []
    for address in _addresses(text):
        try:
            found.append(_id_in(address))
        except NotAVideo as refusal:
            refusals.append(refusal)
    if len(set(found)) > 1:
        raise NotAVideo("several")
    if found:
        return found[0]
    # A page of YouTube tells more than the other addresses of the same text.
    refusals.sort(key=lambda refusal: refusal.reason == "other_site")
    raise refusals[0] if refusals else NotAVideo("nothing")


def _tidy(text):
    """Full-width characters as plain ones, without invisible ones, entities as what they stand for."""
    text = unicodedata.normalize("NFKC", text)
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf").replace("\0", " ")
    for entity, stands_for in _ENTITIES:
        text = text.replace(entity, stands_for)
    return text.strip()


def _bare(text):
    """The id, where the text is nothing else; raises ``NotAVideo`` where it is another id of YouTube's."""
    text = re.sub(r"\s+", " ", text).strip(" .,;:!?\"'()[]<>「」『』、。")
    if _ID.fullmatch(text):
        return text
    if re.fullmatch(r"@[\w.-]{3,60}|UC[\w-]{22}", text):
        raise NotAVideo("channel")
    if re.fullmatch(r"(?:PL|UU|LL|RD|OLAK5uy_)[A-Za-z0-9_-]{12,60}|PL[A-Za-z0-9_-]{0,8}", text):
        raise NotAVideo("playlist")
    if re.fullmatch(r"[A-Za-z0-9_-]{8,14}", text):
        raise NotAVideo("cut_off")
    return None


def _addresses(text):
    """Whatever in the text looks like an address, each from its scheme on."""
    for chunk in _SEPARATORS.split(text):
        for piece in _SCHEME.split(chunk):
            if re.match(r"https?://", piece, re.IGNORECASE):
                yield "https" + piece[piece.index(":"):].rstrip(".,;:!?*~")
                continue
            if re.match(r"/?watch[/?]|\??v=", piece):
                yield "https://www.youtube.com/" + re.sub(r"^\??v=", "watch?v=", piece).lstrip("/")
                continue
            piece, *of_apps = _APP.split(piece)
            yield from map(_of_app, filter(None, of_apps))
            for part in _SCRIPT_CHANGE.split(piece):
                part = _PREFIX.sub("", part, count=1).rstrip(".,;:!?*~")
                host = re.split(r"[/?#]", part, maxsplit=1)[0]
                if _HOST.fullmatch(re.sub(r":\d{1,5}$", "", host.rpartition("@")[2])):
                    yield "https://" + part


def _of_app(rest):
    """What follows an app's own scheme, as an address of the site."""
    rest = rest.rstrip(".,;:!?*~")
    if re.match(r"https?:/", rest, re.IGNORECASE):
        return rest
    first = re.split(r"[/?&#]", rest, maxsplit=1)[0]
    if _ID.fullmatch(_ascii(first)):
        return "https://youtu.be/" + rest
    return ("https://" if "." in first else "https://www.youtube.com/") + rest


def _id_in(address, depth=0):
    """The id in an address with its scheme; raises ``NotAVideo``."""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        host = ""
    if not host:
        raise NotAVideo("nothing")
    if "@" in parts.netloc or not (host in _PLAYERS or host in _GUIDES or _IMAGES.fullmatch(host)):
        raise NotAVideo("other_site", _shown(host))
    path, query = _ascii(parts.path), parts.query
    if path in ("", "/", "/tv") and parts.fragment.startswith("/"):  # of the mobile site, once, and on televisions
        path, _, query = parts.fragment.partition("?")
    elif re.match(r"[?!]?v=", parts.fragment):  # of the player, once
        query += "&" + parts.fragment.lstrip("?!")
    segments = [segment for segment in path.split("/") if segment]
    values = _parameters(query)
    for name in _LEADING:
        if (led := values.get(name)) and depth < DEPTH_MAX and _leads(host, segments):
            return _id_in(led if "://" in led else f"https://{host}/{led.lstrip('/')}", depth + 1)
    if host in _GUIDES:
        raise NotAVideo("other_site" if host.endswith("google.com") else "page", _shown(host))
    return _id_of_page(host, segments, values)


def _leads(host, segments):
    return host in _GUIDES or segments[:1] in (["redirect"], ["attribution_link"], ["oembed"], ["signin"], ["consent"])


def _parameters(query):
    """The first value of each name. Some write ``;`` or a second ``?`` for ``&``."""
    try:
        return {name.lower(): given[0] for name, given in
                parse_qs(re.sub(r"[;?]", "&", query), max_num_fields=PARAMETERS_MAX).items()}
    except ValueError:
        return {}


def _id_of_page(host, segments, values):
    # A path is typed by hand and by shouting keyboards: only the id has letters of two sizes.
    first = segments[0].lower() if segments else ""
    second = segments[1] if len(segments) > 1 else ""
    if first.startswith("@") or first in ("channel", "c", "user"):
        raise NotAVideo("post" if segments[-1].lower() == "community" or "lb" in values else "channel")
    if second in _PLAYERS_WITHOUT_ID:
        raise NotAVideo(_PLAYERS_WITHOUT_ID[second])
    if first in ("", "watch", "watch_popup") and "v" in values:
        return _checked(values["v"])
    if first in _BEFORE_ID and second:
        return _checked(second)
    if host.endswith("youtu.be") and first and first not in _PAGES:
        return _checked(segments[0])
    if first in ("watch", "embed") and "list" in values:
        raise NotAVideo("playlist")
    raise NotAVideo("cut_off" if first in ("watch", "embed", "v", "e") else _PAGES.get(first, "page"))


def _checked(text):
    found = _ID_START.match(text)[0]
    if not _ID.fullmatch(found):
        raise NotAVideo("cut_off")
    return found


def _ascii(path):
    """Up to where the running text around it goes on."""
    return re.match(r"[\x21-\x7e]*", path)[0]


def _shown(host):
    """A host as plain letters, so that none looks like another; bounded."""
    try:
        host = host[:253].encode("idna").decode()
    except UnicodeError:
        host = host.encode("ascii", "replace").decode()
    host = re.sub(r"[^A-Za-z0-9.:_-]", "?", host) or "?"
    return host if len(host) <= HOST_CHARACTERS_SHOWN_MAX else "…" + host[-HOST_CHARACTERS_SHOWN_MAX:]
