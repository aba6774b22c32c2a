"""Why a file cannot be used, in both languages."""
from .fields import clean

HEADERS_SHOWN_MAX = 20


class Unreadable(Exception):
    """Why the file cannot be used: ``code``, ``message`` (a dict by language), ``facts``."""

    def __init__(self, code, en, ja, **facts):
        super().__init__(code)
        self.code, self.message, self.facts = code, {"en": en, "ja": ja}, facts


def empty():
    return Unreadable("FILE_EMPTY", "The file is empty. Choose one that holds comments.",
                      "ファイルが空です。コメントの入ったファイルを選んでください。")


def no_comments(entries=0):
    """``entries``: how many there are, all empty."""
    en, ja = (": every entry is empty", "（すべて空です）") if entries else ("", "")
    return Unreadable("NO_COMMENTS", f"The file holds no comments{en}.", f"ファイルにコメントがありません{ja}。")


def no_column(headers, json_keys=False):
    headers = [clean(header[:1_000])[:60] for header in headers[:HEADERS_SHOWN_MAX]]
    seen = ", ".join(headers)
    where_en, where_ja = ("key", "キー") if json_keys else ("column", "列")
    return Unreadable("NO_COMMENT_COLUMN",
                      f"No {where_en} with comments was found. Name it 'text' or 'comment'. Seen: {seen}.",
                      f"コメントの{where_ja}が見つかりません。「text」または「コメント」という名前にしてください。"
                      f"見つかった{where_ja}：{seen}。", headers=headers)


def too_many(what_en, what_ja, limit, **facts):
    return Unreadable("FILE_TOO_LARGE",
                      f"The file has more than {limit:,} {what_en}, the most this site reads at once, counting "
                      "empty ones. Remove the empty ones, or split the file.",
                      f"ファイルの{what_ja}が、一度に読み込める上限の{limit:,}を超えています（空のものも含みます）。"
                      "空のものを削除するか、ファイルを分割してください。", **facts)


def unsupported(what, advice=None):
    advice = advice or {"en": "Upload JSON, CSV, TSV or plain text with one comment a line.",
                        "ja": "JSON・CSV・TSV、または1行に1コメントのテキストをアップロードしてください。"}
    return Unreadable("UNSUPPORTED_FORMAT", f"This is {what['en']}, which cannot be read. {advice['en']}",
                      f"これは{what['ja']}で、読み込めません。{advice['ja']}", format=what["en"])
