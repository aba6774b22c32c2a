"""Laws of a video's address: every spelling of one video is one id, everything else says what it is."""
import time

import pytest
from pydantic import ValidationError

from webapp.kinds import comments
from webapp.kinds.comments.address import TEXT_CHARACTERS_MAX, NotAVideo, video_id

ID = "dQw4w9WgXcQ"
DASHED = "-aB_3xYz9-k"
SHAPES = [
    "https://www.youtube.com/watch?v={}", "http://youtube.com/watch?v={}", "https://m.youtube.com/watch?v={}",
    "https://music.youtube.com/watch?v={}&list=RDAMVM{}", "youtube.com/watch?v={}", "www.youtube.com/watch?v={}",
    "//youtu.be/{}", "HTTPS://WWW.YOUTUBE.COM/watch?v={}", "WWW.YouTube.Com/watch?v={}", "youtube.com./watch?v={}",
    "https://www.youtube.com:443/watch?v={}", "m.youtube.com:443/watch?v={}", "https:/youtu.be/{}",
    "ttps://youtu.be/{}",
    "https://www.youtube.com/watch?list=PL123&v={}&t=42s", "https://www.youtube.com/watch?app=desktop&si=a_b-c&v={}",
    "https://www.youtube.com/watch?list=PL123&amp;v={}&amp;t=3", "https://www.youtube.com/watch?x=1&amp;amp;v={}",
    "https://www.youtube.com/watch?v={}#t=30", "https://www.youtube.com/watch?v={}?t=30", "youtu.be/{}&t=30",
    "https://www.youtube.com/watch/?v={}", "https://www.youtube.com/watch/{}", "https://www.youtube.com/?v={}",
    "https://www.youtube.com/WATCH?v={}", "https://m.youtube.com/#/watch?v={}",
    "https://www.youtube.com/watch_popup?v={}",
    "https://www.youtube.com/shorts/{}", "https://www.youtube.com/shorts/{}?feature=share", "youtube.com/Shorts/{}/",
    "https://www.youtube.com/live/{}?si=x", "https://www.youtube.com/embed/{}?rel=0", "https://www.youtube.com/v/{}",
    "https://www.youtube.com/e/{}", "https://www.youtube-nocookie.com/embed/{}",
    "https://youtube-nocookie.com/embed/{}",
    "https://www.youtubekids.com/watch?v={}", "https://youtu.be/{}", "https://youtu.be/{}?si=Ab-c_d&t=5",
    "youtu.be/{}/",
    "https://studio.youtube.com/video/{}/edit",
    "https://studio.youtube.com/video/{}/analytics/tab-overview/period-default",
    "https://i.ytimg.com/vi/{}/maxresdefault.jpg", "https://i3.ytimg.com/vi_webp/{}/0.webp",
    "https://img.youtube.com/vi/{}/0.jpg",
    "https://www.youtube.com/attribution_link?a=x&u=%2Fwatch%3Fv%3D{}%26feature%3Dshare",
    "https://www.youtube.com/redirect?event=d&q=https%3A%2F%2Fyoutu.be%2F{}",
    "https://www.youtube.com/redirect?q=https://youtu.be/{}",
    "https://consent.youtube.com/m?continue=https%3A%2F%2Fwww.youtube.com%2Fwatch%3Fv%3D{}%26cbrd%3D1&gl=DE",
    "https://accounts.google.com/ServiceLogin?continue=https%3A%2F%2Fwww.youtube.com%2Fsignin%3Fnext%3D%252Fwatch%253Fv%253D{}",
    "https://www.google.com/url?sa=t&url=https%3A%2F%2Fwww.youtube.com%2Fwatch%3Fv%3D{}",
    "https://www.youtube.com/oembed?url=https%3A//www.youtube.com/watch%3Fv%3D{}&format=json",
    "watch?v={}", "/watch?v={}", "v={}", "?v={}", "{}", "  {}\r\n", "\n{}\n", "「{}」", "\ufeff{}\u200b", '"{}"',
    "https://youtu.be/{}.", "(https://youtu.be/{})", "<https://youtu.be/{}>", "「https://youtu.be/{}」",
    "https://youtu.be/{}、",
    "https://youtu.be/{}。", "'https://youtu.be/{}'", "https://youtu.be/{}!!", "**https://youtu.be/{}**",
    "“https://youtu.be/{}”",
    "【公式】新曲『夜』 https://youtu.be/{}?si=abc @YouTubeより", "My title\nhttps://youtu.be/{}?si=abc",
    "My titlehttps://youtu.be/{}",
    "【新曲】夜をhttps://youtu.be/{}見てね", "これ見てyoutu.be/{}", "URL：youtu.be/{}", "見て: www.youtube.com/watch?v={} #推し",
    "[a title](https://www.youtube.com/watch?v={} 'hover')", "ｈｔｔｐｓ：／／ｗｗｗ．ｙｏｕｔｕｂｅ．ｃｏｍ／ｗａｔｃｈ？ｖ＝{}",
    "https://youtu.be/{} https://www.youtube.com/watch?v={}", "https://youtu.be/{}https://youtu.be/{}",
    "https://youtu.be/{},youtu.be/{}",
    '<iframe width="560" height="315" src="https://www.youtube.com/embed/{}?si=x" title="YouTube video player" '
    'allow="accelerometer; autoplay" referrerpolicy="strict-origin-when-cross-origin" allowfullscreen></iframe>',
    "&lt;iframe src=&quot;//www.youtube.com/embed/{}&quot;&gt;",
    "https://youtu.be/{} from my channel https://www.youtube.com/@me",
    "vnd.youtube:{}", "vnd.youtube://{}", "vnd.youtube:///{}", "VND.YouTube:{}?vndapp=youtube_mobile&vndclient=mv",
    "youtube://{}",
    "vnd.youtube://www.youtube.com/watch?v={}&feature=applinks", "youtube://watch?v={}", "youtube://watch/{}",
    "youtube://shorts/{}",
    "vnd.youtube://https://youtu.be/{}", "vnd.youtube.launch://{}", "これ見てvnd.youtube:{}見て", "youtube://youtu.be/{}.",
    "YouTube:/{}",
    "YouTube://www.youtube.com/v/{}",
    "intent://www.youtube.com/watch?v={}#Intent;package=com.google.android.youtube;scheme=https;end",
    "android-app://com.google.android.youtube/http/www.youtube.com/watch?v={}", "vnd.youtube:{} https://youtu.be/{}",
    "android-app://com.google.android.apps.youtube.music/vnd.youtube/{}",
    "ios-app://544007664/vnd.youtube/www.youtube.com/watch?v={}",
    "https://www.youtube.com/tv#/watch?v={}", "https://www.youtube.com/source/{}/shorts",
    "https://i.ytimg.com/an_webp/{}/mqdefault_6s.webp",
    "https://youtube.googleapis.com/v/{}", "https://www.youtubeeducation.com/embed/{}",
    "YouTube:Wonderfully https://youtu.be/{}",
    "https://example.org/blog and https://youtu.be/{}", "https://www.youtube.com/watch?v={};t=3",
]
REFUSED = [
    ("https://www.youtube.com/playlist?list=PLabc", "playlist"),
    ("https://www.youtube.com/watch?list=PLabc", "playlist"),
    ("https://www.youtube.com/embed/videoseries?list=PLabc", "playlist"), ("PL0123456789abcdefghij", "playlist"),
    ("https://music.youtube.com/playlist?list=OLAK5uy_x", "playlist"),
    ("https://www.youtube.com/embed/live_stream?channel=UCabc", "channel"),
    ("https://www.youtube.com/@handle", "channel"),
    ("https://www.youtube.com/@handle/videos", "channel"), ("youtube.com/@日本語", "channel"), ("@handle", "channel"),
    ("https://www.youtube.com/channel/UCabcdefghijklmnopqrstuv", "channel"), ("https://youtube.com/c/name", "channel"),
    ("https://youtube.com/user/name", "channel"), ("UCabcdefghijklmnopqrstuv", "channel"),
    ("https://www.youtube.com/clip/UgkxAbCdEfGhIjKl", "clip"), ("https://www.youtube.com/post/UgkxAbC", "post"),
    ("https://www.youtube.com/channel/UCabc/community?lb=Ugkx", "post"),
    ("https://www.youtube.com/@x/community", "post"),
    ("https://www.youtube.com/results?search_query=cat", "list"), ("https://www.youtube.com/feed/trending", "list"),
    ("https://www.youtube.com/hashtag/cat", "list"), ("https://www.youtube.com/", "list"), ("youtube.com", "list"),
    ("https://www.youtube.com/shorts", "list"), ("https://youtu.be/", "list"),
    ("https://www.youtube.com/about", "page"),
    ("https://www.youtube.com/watch?v=dQw4w9W", "cut_off"), ("https://youtu.be/dQw4w9WgXcQQ", "cut_off"),
    ("https://youtu.be/dQw4w9W…", "cut_off"), ("https://www.youtube.com/shorts/dQw", "cut_off"),
    ("dQw4w9WgXc", "cut_off"),
    ("https://www.youtube.com/watch", "cut_off"), ("https://www.youtube.com/watch?v=", "cut_off"),
    (f"https://youtu.be/{ID} https://youtu.be/{DASHED}", "several"), (f"vnd.youtube:{ID} youtube://{DASHED}",
    "several"),
    ("youtube://", "nothing"), ("vnd.youtube:", "nothing"), ("youtube://dQw", "page"),
    ("vnd.youtube://results?search_query=cat", "list"),
    ("youtube://www.youtube.com/user/name", "channel"), ("youtube://playlist?list=PLabc", "playlist"),
    (f"https://youtu.be/{ID}https://youtu.be/{DASHED}", "several"),
    ("", "nothing"), ("   ", "nothing"), ("what a nice video", "nothing"), ("https://", "nothing"),
    ("http://[::1", "nothing"),
    ("とても良い動画でした。", "nothing"), ("\0", "nothing"), ("x" * (TEXT_CHARACTERS_MAX + 1), "too_long"),
]
OTHER_SITES = [
    (f"https://youtube.com.evil.example/watch?v={ID}", "youtube.com.evil.example"),
    (f"notyoutube.com/watch?v={ID}", "notyoutube.com"),
    (f"https://youtube.com@evil.example/watch?v={ID}", "evil.example"),
    (f"youtube.com@evil.example/{ID}", "evil.example"),
    (f"https://www.youtube.com:80@evil.example/watch?v={ID}", "evil.example"),
    (f"https://user@youtube.com/watch?v={ID}", "youtube.com"),
    (f"https://xn--outube-j3f.com/watch?v={ID}", "xn--outube-j3f.com"), (f"https://уoutube.com/watch?v={ID}", "xn--"),
    (f"https://youtube。com.evil.example/watch?v={ID}", ""),
    (f"https://evil.example/?u=https://youtu.be/{ID}", "evil.example"),
    (f"https://youtu.be.evil.example/{ID}", "youtu.be.evil.example"),
    (f"https://my-youtube.com/watch?v={ID}", "my-youtube.com"), (f"youtube://evil.example/watch?v={ID}",
    "evil.example"),
    (f"vnd.youtube://user@www.youtube.com/watch?v={ID}", "www.youtube.com"), (f"vnd.youtube:https://evil.example/{ID}",
    "evil.example"),
    (f"https://evil.example/vnd.youtube://{ID}", "evil.example"), (f"evil.example?youtube://{ID}", ""),
    (f"https://evil.example/youtube.com/watch?v={ID}", "evil.example"),
    (f"https://evil.example#youtube.com/watch?v={ID}", "evil.example"),
    (f"https://evil.example?https://youtu.be/{ID}", "evil.example"), ("https://vimeo.com/12345", "vimeo.com"),
    ("nicovideo.jp/watch/sm9", "nicovideo.jp"),
    ("https://www.google.com/search?q=youtube", "www.google.com"), (f"https://{'a.' * 200}example/watch?v={ID}", "…"),
    ("https://{ja}.example/x", ""),
]


@pytest.mark.parametrize("identifier", [ID, DASHED])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_spelling_of_a_video_is_its_id(shape, identifier):
    assert video_id(shape.replace("{}", identifier)) == identifier


@pytest.mark.parametrize("text, reason", REFUSED)
def test_what_is_no_video_is_told_what_it_is_and_what_to_do(text, reason):
    with pytest.raises(NotAVideo) as caught:
        video_id(text)
    assert caught.value.reason == reason
    assert caught.value.message["en"].endswith(".") and caught.value.message["ja"].endswith("。")


@pytest.mark.parametrize("text, host", OTHER_SITES)
def test_another_site_is_named_and_never_taken_for_youtube(text, host):
    with pytest.raises(NotAVideo) as caught:
        video_id(text)
    if caught.value.reason == "other_site":
        assert all(host in said and len(said) < 250 and said.isprintable() for said in caught.value.message.values())
    else:
        assert not host and caught.value.reason in ("list", "nothing", "page")


@pytest.mark.parametrize("hostile", [
    "vnd.youtube:" * 160, "youtube://" * 200, "android-app://com.google.android." + "youtube" * 270,
    "https://" * 250, "." * 2_000, "a." * 1_000, "youtu.be/" * 220, "&amp;" * 400, "﷽" * 2_000, "@" * 2_000, "あa" * 1_000, "://" * 660,
    "https://www.youtube.com/redirect?q=" * 50, "https://youtu.be/" + "%25" * 600, "watch?" + "v=&" * 600, "a:" * 1_000, "\u0301" * 2_000,
    "https://www.youtube.com/watch?v=" + "-" * 1_900, "https://xn--" + "a" * 1_900, "https://" + "ä" * 1_900 + ".com", "\ud800" * 2_000,
])
def test_a_hostile_text_is_refused_at_once(hostile):
    start = time.process_time()
    with pytest.raises(NotAVideo):
        video_id(hostile)
    assert time.process_time() - start < 0.2


def test_a_form_field_takes_any_spelling_keeps_the_id_and_validates_again():
    for shape in SHAPES:
        params = comments.Params(video=shape.replace("{}", DASHED))
        assert params.video == DASHED
        assert comments.Params.model_validate_json(params.model_dump_json()) == params
        assert comments.share_key(params) == f"video:{DASHED}:1000:relevance:1"


def test_a_refusal_stands_at_the_field_in_both_languages():
    with pytest.raises(ValidationError) as caught:
        comments.Params(video="https://evil.example/{ja}{host}")
    [error] = caught.value.errors()
    assert error["loc"] == ("video",) and "evil.example" in error["msg"] and "evil.example" in error["ctx"]["ja"]
