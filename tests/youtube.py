"""A real HTTP server on a loopback address that answers as the YouTube Data API v3 does, errors and prices included;
and a piece of work that asks it."""
import json
import re
import subprocess
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from tests.upstreams import Answer, CannedUpstream
from webapp.kinds import DailyLimit, UpstreamUnavailable
from webapp.upstream import Upstream

KEY = "AIzaSy-a-key-of-the-tests_0123456789"
ROOT = "/youtube/v3/"
UNTIL = "2096-12-01T08:00:00.000Z"
LINK = '<a href="/youtube/v3/getting-started#quota">quota</a>'
# reason: (HTTP status, domain, message), as the API's reference and its users' reports give them.
ERRORS = {
    "commentsDisabled": (403, "youtube.commentThread", "The video identified by the <code><a href=\"/youtube/v3/docs/"
                         "commentThreads/list#videoId\">videoId</a></code> parameter has disabled comments."),
    "videoNotFound": (404, "youtube.commentThread", "The video identified by the <code>videoId</code> parameter could "
                      "not be found."),
    "forbidden": (403, "youtube.commentThread", "One or more of the requested comment threads cannot be retrieved due "
                  "to insufficient permissions. The request might not be properly authorized."),
    "quotaExceeded": (403, "youtube.quota", f"The request cannot be completed because you have exceeded your {LINK}."),
    "dailyLimitExceeded": (403, "usageLimits", "Daily Limit Exceeded. The quota will be reset at midnight Pacific Time."),
    "rateLimitExceeded": (403, "usageLimits", "Rate Limit Exceeded"),
    "userRateLimitExceeded": (403, "usageLimits", "User Rate Limit Exceeded"),
    "keyInvalid": (400, "usageLimits", f"Bad Request: key={KEY}&x=1"),
    "accessNotConfigured": (403, "usageLimits", "Access Not Configured. YouTube Data API has not been used in project "
                            "1 before or it is disabled. Enable it by visiting <a href=\"https://console.developers."
                            f"google.com/?key={KEY}\">the console</a>."),
    "ipRefererBlocked": (403, "usageLimits", "There is a per-IP or per-Referer restriction configured on your API key."),
    "processingFailure": (400, "youtube.commentThread", "The API server failed to successfully process the request."),
    "backendError": (503, "global", "Backend Error"),
    "invalidPageToken": (400, "youtube.parameter", "The request specifies an invalid page token."),
    "commentNotFound": (404, "youtube.comment", "The specified comment could not be found."),
    "invalidValue": (400, "youtube.parameter", "Invalid value <b>for</b> a parameter"),
}


def error(reason, status=None, headers=(), details=None, **more):
    """The API's answer for this reason."""
    code, domain, message = ERRORS.get(reason, (400, "global", reason))
    message = more.pop("message", message)
    body = {"code": status or code, "message": message,
            "errors": [{"message": message, "domain": domain, "reason": reason}], **more}
    if details:
        body["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": details,
                            "domain": "googleapis.com"}]
    return answer({"error": body}, status or code, headers)


def answer(body, status=200, headers=()):
    try:
        sent = json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a pair
        sent = json.dumps(body).encode()
    return Answer(sent, status, {"Content-Type": "application/json; charset=UTF-8", **dict(headers)})


# As for a key that never was, or that is for other services.
KEY_INVALID = error("badRequest", details="API_KEY_INVALID", status=400,
                    message="API key not valid. Please pass a valid API key.")
SERVICE_DISABLED = error("accessNotConfigured", details="SERVICE_DISABLED")
KEY_BLOCKED = error("forbidden", details="API_KEY_SERVICE_BLOCKED", message="Requests to this API are blocked.")
PER_DAY = error("rateLimitExceeded", status=429, details="RATE_LIMIT_EXCEEDED",
                message="Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service.")


@dataclass
class Video:
    """``reported``: statistics.commentCount, absent if None. ``threads``: see ``thread``."""

    threads: list = field(default_factory=list)
    title: str = "A <b>video</b> & more"
    reported: int | None = None
    live: str = "none"
    kids: bool = False
    disabled: bool = False


def comment(identifier, text="I love this", likes=1, at="2024-01-02T03:04:05Z", author=None, parent=None):
    snippet = {"videoId": "v", "textDisplay": text, "authorDisplayName": f"@{author or identifier}",
               "textOriginal": text, "canRate": True, "viewerRating": "none", "likeCount": likes, "publishedAt": at,
               "authorChannelId": {"value": f"UC{author or identifier}"}, "channelId": "UC" + 22 * "c", "updatedAt": at,
               "authorChannelUrl": "http://www.youtube.com/channel/UC" + 22 * "a",
               "authorProfileImageUrl": "https://yt3.ggpht.com/ytc/" + 60 * "p" + "=s48-c-k-c0x00ffffff-no-rj"}
    return {"kind": "youtube#comment", "id": identifier, "snippet": {**snippet, **({"parentId": parent} if parent else {})}}


def thread(identifier, text="I love this", replies=0, inline=5, total=None, **more):
    """A thread with so many replies, of which a page of threads brings ``inline``."""
    return {"top": comment(identifier, text, **more), "inline": inline, "total": replies if total is None else total,
            "replies": [comment(f"{identifier}.{n}", f"Reply {n} I hate it", parent=identifier) for n in range(replies)]}


def threads(count, start=0, **more):
    return [thread(f"t{n}", f"I love this {n}", **more) for n in range(start, start + count)]


class FakeYouTube(CannedUpstream):
    """``videos``: by id. ``fail(path, *answers)``: given first, one a request. ``pages``: answers of ``path`` by its page
    token (None: the first page), instead of those made from ``videos``. ``requests``: by path; each costs a unit."""

    def __init__(self):
        super().__init__()
        self.videos, self.pages, self.requests = {}, defaultdict(dict), Counter()
        self.asked_for, self.delay_seconds = [], 0
        self._failing = defaultdict(deque)

    @property
    def units(self):
        return self.requests.total()

    def fail(self, path, *answers):
        self._failing[path].extend(answers)

    def _chosen(self, path, query):
        name, asked = path.removeprefix(ROOT), {key: value[0] for key, value in parse_qs(query).items()}
        self.requests[name] += 1
        self.asked_for.append((name, asked))
        if self._failing[name]:
            return self._failing[name].popleft()
        if asked.get("key") != KEY:
            return KEY_INVALID
        token = asked.get("pageToken")
        if name in self.pages and token in self.pages[name]:
            given = self.pages[name][token]
            return given if isinstance(given, Answer) else answer(_with_fields(given, asked))
        made = {"videos": self._videos, "commentThreads": self._threads, "comments": self._comments}[name](asked)
        return Answer(made.body, made.status, made.headers, delay_seconds=self.delay_seconds)

    def _videos(self, asked):
        video = self.videos.get(asked["id"])
        items = [] if video is None else [{
            "kind": "youtube#video", "id": asked["id"],
            "snippet": {"title": video.title, "channelTitle": "A channel", "publishedAt": "2024-01-01T00:00:00Z",
                        "liveBroadcastContent": video.live},
            "statistics": {"viewCount": "12345", "likeCount": "67",
                           **({} if video.reported is None else {"commentCount": str(video.reported)})},
            "status": {"madeForKids": video.kids, "privacyStatus": "public"}}]
        return answer({"kind": "youtube#videoListResponse", "items": items,
                       "pageInfo": {"totalResults": len(items), "resultsPerPage": len(items)}})

    def _threads(self, asked):
        video = self.videos.get(asked["videoId"])
        if video is None:
            return error("videoNotFound")
        if video.disabled:
            return error("commentsDisabled")
        found = video.threads if asked.get("order", "time") == "relevance" else video.threads[::-1]
        return _page("commentThread", [_shaped(one) for one in found], asked)

    def _comments(self, asked):
        for video in self.videos.values():
            for one in video.threads:
                if one["top"]["id"] == asked["parentId"]:
                    return _page("comment", one["replies"], asked)
        return error("commentNotFound")


def _shaped(one):
    made = {"kind": "youtube#commentThread", "id": one["top"]["id"],
            "snippet": {"topLevelComment": one["top"], "totalReplyCount": one["total"], "isPublic": True}}
    came_along = one["replies"][:one["inline"]]
    return {**made, "replies": {"comments": came_along}} if came_along else made


def _page(kind, found, asked):
    size, token = int(asked.get("maxResults", 20)), asked.get("pageToken")
    if not 1 <= size <= 100:
        return error("invalidValue")
    if token is not None and not token.startswith("at-"):
        return error("invalidPageToken")
    start = int(token[3:]) if token else 0
    items = found[start:start + size]
    more = {"nextPageToken": f"at-{start + size}"} if start + size < len(found) else {}
    return answer(_with_fields({"kind": f"youtube#{kind}ListResponse", **more, "items": items,
                                "pageInfo": {"totalResults": len(items), "resultsPerPage": size}}, asked))


def _with_fields(body, asked):
    """A partial response, of what ``fields=a,b(c,d)`` names."""
    if "fields" not in asked:
        return body
    names = re.sub(r"(\w+)(?=[,)])", r"\1:0", asked["fields"] + ")").replace("(", ":{").replace(")", "}")
    return _chosen(body, json.loads(re.sub(r"(\w+):", r'"\1":', "{" + names)))


def _chosen(value, names):
    if isinstance(value, list):
        return [_chosen(one, names) for one in value]
    if not names or not isinstance(value, dict):
        return value
    return {name: _chosen(one, names[name]) for name, one in value.items() if name in names}


class Job:
    """The part of a JobContext that the kind uses, over real HTTP and the real child process. ``allowed``: so many units,
    then ``DailyLimit`` with ``limit``."""

    lang = "en"

    def __init__(self, fake, steps=None, upstream=None, allowed=10_000, limit=(False, False), key=KEY):
        self.settings = {"YOUTUBE_API_KEY": key, "YOUTUBE_API_URL": fake.url(""), "MAX_UPLOAD_ROWS": "50000"}
        self.steps = {} if steps is None else steps
        self.upstream = upstream or Upstream(user_agent="tests")
        self.allowed, self.limit = allowed, limit
        self.said, self.incidents, self.exported, self.files = [], [], [], {}
        self.reusable, self.exhausted, self.until = True, 0, UNTIL

    def step(self, name, fn):
        if name not in self.steps:
            self.steps[name] = json.dumps(fn(), ensure_ascii=False).encode("utf-8", "replace").decode()
            assert len(self.steps[name].encode()) < 1_000_000
        return json.loads(self.steps[name])

    def fetch(self, url, *, units=0, **options):
        spent = 0

        def spend():
            nonlocal spent
            if self.allowed < units:
                guests, exhausted = self.limit
                raise DailyLimit(guests=guests, exhausted=exhausted, retry_at=UNTIL, retry_after_seconds=60)
            self.allowed -= units
            spent += units
        try:
            response = self.upstream.fetch(url, admit=spend, **options)
        except (UpstreamUnavailable, DailyLimit) as failure:
            failure.units = spent
            raise
        return type(response)(**{**vars(response), "units": spent})

    def progress(self, stage, done=None, total=None, message=None):
        self.said.append((stage, done, total, message))

    def quota_exhausted(self, answer):
        self.exhausted += 1
        return self.until

    def incident(self, code, detail):
        self.incidents.append((code, detail))

    def do_not_reuse(self):
        self.reusable = False

    def run_command(self, args, *, on_line=None, cwd=None, input=None):
        done = subprocess.run(args, cwd=cwd, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        for line in done.stdout.splitlines(keepends=True):
            on_line(line)

    def rows(self, rows):
        self.exported = list(rows)

    def save_file(self, name, data, media_type):
        self.files[name] = json.loads(data)
