"""What a comment asks of the video's creator: a question, a request, or nothing. Rules, English and Japanese.

Not counted: what is asked of other viewers ('who is watching in 2024?'), rhetorical questions ('how is
this not famous?'), wishes ('please stay healthy'), advertising ('please subscribe to me') and quotations.
"""
import re
from typing import NamedTuple

SENTENCES_MAX = 12
READ_CHARACTERS_MAX = 1_200
SENTENCE_CHARACTERS_MAX = 160
QUESTION_WORDS_MAX = 30     # what is longer tells a story and ends in a question mark

NOTHING = "", 0


class Ask(NamedTuple):
    """``kind``: 'question' or 'request'; ``sentence``: the one that asks, as it was written."""

    kind: str
    sentence: str


def find(text: str, spoken: str) -> Ask | None:
    """What the text asks for; a request before a question, otherwise the first. ``spoken``: the text's
    language; others than English and Japanese are not read."""
    judge = _JUDGES.get(spoken)
    if text.lstrip().startswith(("@", "＠")):
        return None     # said to another viewer
    text = text[:READ_CHARACTERS_MAX].replace("’", "'").replace("？", "?").replace("！", "!")
    if judge is None or not _WORTH_READING[spoken].search(text.lower()):
        return None
    found = None
    for sentence in _sentences(text):
        kind, place = judge(sentence)
        if kind and (found is None or kind == "request"):
            found = Ask(kind, _around(sentence, place))
        if kind == "request":
            break
    return found


def _sentences(text):
    found = (" ".join(piece.split()) for piece in _SENTENCE.findall(_QUOTED.sub(" ", text)))
    return [sentence for sentence in found if sentence][:SENTENCES_MAX]


def _around(sentence, place):
    """The sentence; of one without end, as people write them, the part that begins where it asks."""
    if len(sentence) <= SENTENCE_CHARACTERS_MAX:
        return sentence
    if place + SENTENCE_CHARACTERS_MAX // 2 > len(sentence):
        place = max(0, len(sentence) - SENTENCE_CHARACTERS_MAX // 2)
    return ("…" if place else "") + sentence[place:place + SENTENCE_CHARACTERS_MAX].strip() + "…"


# A mark ends a sentence, except within '1.5' or 'youtu.be'.
_SENTENCE = re.compile(r"(?:[^.!?。\n]|\.(?=\w))+[.!?。]*")
_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|「[^」\n]{1,300}」|『[^』\n]{1,300}』")


# --- English ------------------------------------------------------------------------------------

_MAKE = (r"(?:make|do|create|post|upload|add|show|cover|try|review|react|share|play|bring|continue|release|drop|fix|"
         r"include|record|sing|remake|film|link|translate|test|compare|turn|teach|write|draw|build|cook|visit|invite|"
         r"collab|start|stop|keep|put|give|send|reply|answer|pin|explain|slow)")
_GREETING = (
    r"^(?:(?:hey|hi|hello|yo|ok|okay|so|and|but|also|btw|bro|man|guys|sir|dude|wait|um|umm|just wondering|"
    r"quick question)[\s,]+){0,3}")
_PART = r"\b(?:part|pt|episode|ep|season|chapter|volume|vol)\.?\s?(?:\d+|two|three|ii+)"

_EN_REQUEST = tuple(re.compile(pattern) for pattern in (
    rf"\b(?:can|could|would|will|wo|ca) ?(?:n't |not )?(?:you|u|ya)(?: guys)?(?: please| pls| plz| maybe| also|"
    rf" possibly)* {_MAKE}\b",
    rf"\b(?:please|pls|plz|kindly)[\s,]+(?:(?:can|could) (?:you|u)\s)?(?:also |just |consider |don't )?{_MAKE}",
    rf"{_PART}[\s,]*(?:please|pls|plz|when|now|asap|pretty please)?\s*\?+$",
    rf"{_PART}\b.{{0,12}}\b(?:please|pls|plz)\b|\b(?:please|pls|plz)\b.{{0,20}}\b{_PART}",
    r"^(?:more|another|a|an|full|next|new)\b.{2,60}\b(?:please|pls|plz)\W*$",
    r"^\S+(?: \S+){0,4} (?:tutorial|version|video|link|part|remix|cover|series|lyrics|subtitles|review|"
    r"update) (?:please|pls|plz)\W*$",
    rf"\b(?:we|i|you) (?:really |all |still |desperately |definitely )*(?:need|want|demand)s? (?:to see )?(?:a |"
    rf"an |another |more |the )?"
    rf"(?:{_PART}|sequel|follow.?up|full version|tutorial|remix|next part|next episode|more (?:of (?:this|"
    rf"these)|videos|episodes|content|like this))",
    r"\bi(?: would|'d)(?: really| absolutely)? (?:love|like)(?: it)? (?:to see (?:you|a|an|more|another|some)|"
    r"if (?:you|u)\b|a video|a tutorial)",
    r"\byou (?:guys )?should (?:really |definitely |totally |also )?(?:make|do|try|react|cover|review|play|"
    r"upload|post|add|create|collab|visit|invite)\b",
    r"\b(?:would (?:be (?:great|nice|awesome|cool|good|amazing)|love it|appreciate it)|it'd be (?:great|nice|"
    r"awesome|cool)) if (?:you|u)\b",
    r"^(?:make|do|upload|create) (?:a|an|more|another|the|one)\b.{0,40}\b(?:video|videos|tutorial|part|episode|"
    r"version|series|review|about|on|please)\b",
    r"^(?:next (?:video|time|one)[\s,:]+|bring back\b|react to\b|try the\b|drop the (?:link|tutorial|full|song|"
    r"album))",
    r"\b(?:suggestion|request|video idea|idea for (?:a|the next) video)\s*:",
    r"\bhope (?:that )?you(?:'ll| will| can)? (?:make|do|upload|cover|review|post|continue)\b",
))
_EN_NO_REQUEST = re.compile(
    r"\b(?:please|pls|plz)\b.{0,12}\b(?:subscribe|sub to|check (?:out )?my|visit my|watch my|like (?:and|my|"
    r"this)|support my|follow me|"
    r"help me|god|lord|jesus|pray|stay|take care|keep it up|don't die|stop it|rest in)\b|\bmy (?:channel|cover|"
    r"song|page|video)\b|"
    r"\bkeep (?:it up|going|up)\b|\b(?:keep|continue) (?:up |with |doing )?(?:your|the|this|what)\b|\b(?:you|"
    r"u) (?:imagine|believe|hear me)\b")

# Only a text with a question mark can be one of these.
_EN_MARKED_QUESTION = tuple(re.compile(pattern) for pattern in (
    _GREETING + r"(?:what|which|where|when|who|whose|how|why|what's|whats|where's|who's|when's|how's)\b.*\?",
    _GREETING + r"(?:do|does|did|are|is|was|were|can|could|will|would|have|has|should|shall|may|don't|isn't|"
                r"aren't|won't)"
                r" (?:you|u|ya|this|that|these|it|there|the|your|we|i)\b.*\?",
    r"\b(?:what|which|where|when|how) (?:is|are|do|did|does|was|can|could|should|would|will|much|many|long|old|"
    r"far|often)\b"
    r".{0,80}\b(?:you|u|your|this|song|i|we)\b.*\?$",
))
_EN_QUESTION = tuple(re.compile(pattern) for pattern in (
    r"^(?:link|song|name|song name|price|app|title|music|bgm|source|location|recipe|size|model|brand|camera|"
    r"specs|artist)(?: name| link)?(?:\s*\?+|,? (?:please|pls|plz)\W*)$",
    r"^(?:\w+ )?link\s*\?+$|^when(?: is| will be)?(?: the)? next (?:episode|video|part|one|season|upload)\b",
    r"\b(?:what|which|what's|whats) (?:is |are |was )?(?:the |this |that )?(?:name of (?:the|this|that) |"
    r"title of (?:the|this) )?"
    r"(?:song|music|track|app|font|camera|mic|microphone|software|keyboard|editor|game|movie|anime|brand|artist|"
    r"beat)\b(?!\.)"
    r"(?=.{0,40}(?:\?|$))(?! (?:ever|i've|lol|wow))(?=(?: \S+){0,8}\W*$)",
    r"\b(?:anyone|anybody|someone|somebody) (?:knows?|tell me|have|got) (?:the |what|where|how|which|this)\b",
    r"\b(?:can|could|would) (?:you|u|anyone|someone|somebody)(?: please| pls| plz)? (?:tell|say|"
    r"explain)(?: to)? (?:me|us|what|how|why|where)\b",
    r"\bmay i (?:ask|know)\b|\bi (?:have|got) a question\b|^(?:my )?question\s*:|\bi(?: was|'m|"
    r" am) (?:just )?(?:wondering|curious) (?:if|what|how|where|which)\b",
    r"^(?:what|where|when|how) (?:do|did|can|could|should) (?:i|you|u|we) (?:get|find|buy|use|download|install|"
    r"make|do|edit|record)\b",
))
_EN_NO_QUESTION = re.compile(
    # asked of the other viewers
    r"\b(?:who(?:'s|s| is| are|'re| else)?|any(?:one|body)(?: else)?|some(?:one|body) else)\b.{0,40}\b(?:here|"
    r"watching|listening|in 20\d\d|"
    r"20[12]\d|came|from tiktok|still|else|else think|notice|noticed|remembers?|agrees?|crying|relate|feel|love|"
    r"loves|like|likes|want|wants)\b|"
    r"\bam i the only|\bis it (?:just|only) me|\b(?:just|only) me\s*\?|\bdid (?:any(?:one|body)|"
    r"you (?:guys )?(?:all )?(?:notice|see|hear|know))\b|"
    r"\bwho (?:needs|cares|knew|wants|would|could|doesn't|wouldn't|can|did this|the hell|hurt|let|asked|agrees|"
    r"came)\b|"
    # rhetorical
    r"\b(?:how|why) (?:can|could|would|does|do|did|is|are|has|have) (?:any|some|no|nobody|people|this not|"
    r"this man|this guy|he|she|they)|"
    r"\bhow (?:is|are|was) (?:this|he|she|it|that|they) (?:not|so|even|still|only|possible|legal|real|free)|"
    r"\bhow (?:cool|cute|sweet|dare|on earth|the (?:hell|heck|fuck))|"
    r"\bwhy (?:am i|is (?:this|youtube|it|everyone|nobody|no one|my)|are (?:people|we|they)|so|not\s*\?|would|"
    r"tf|the (?:hell|heck|fuck))|"
    r"\bwhat (?:the (?:hell|heck|fuck|f|actual)|an? \w+|more (?:do|can|could)|else (?:do|can)|could (?:go|"
    r"possibly)|is (?:wrong|life|he|she|going on|happening)|"
    r"are (?:they|the (?:chances|odds))|did i (?:just|do)|if\b)|"
    r"\b(?:do|can|could|did|don't|will|would) (?:you|u) (?:even|imagine|believe|see (?:it|that|this)|hear (?:it|"
    r"that)|feel|guys|know (?:what i|that|who)|think (?:he|she|they|it))\b|"
    r"\b(?:can|could|will|would) (?:you|u) not\b|\bhow (?:are|is|can|do) (?:you|u|he|she) (?:be )?so\b|"
    r"\b(?:right|huh|eh|okay|ok|ya know|you know|isn't it|isn't he|ain't it|guess what|know what|so what|"
    r"you kidding|you serious|are you (?:ok|okay|crazy|dumb|kidding))\s*\?|"
    r"\bis (?:this|that|it) (?:even|not|a joke|heaven|real|real life|legal|the real)\b|\bcan we (?:all |just |"
    r"please )*(?:appreciate|talk|take|agree|get|have|discuss|thank)\b|"
    r"\b(?:could|can) this (?:be|get) any|\bremember when\b|\bhave you (?:ever )?(?:seen|noticed|heard) (?:how|"
    r"the way|his|her|that)\b")


def _english(sentence):
    plain = sentence.lower()
    if (asked := _first(_EN_REQUEST, plain)) and not _EN_NO_REQUEST.search(plain):
        return "request", asked.start()
    asked = "?" in plain and _first(_EN_MARKED_QUESTION, plain) or _first(_EN_QUESTION, plain)
    if not asked or len(plain[asked.start():].split()) > QUESTION_WORDS_MAX or _EN_NO_QUESTION.search(plain):
        return NOTHING
    return "question", asked.start()


def _first(rules, plain):
    return next((match for rule in rules if (match := rule.search(plain))), None)


# --- Japanese -----------------------------------------------------------------------------------

_JA_REQUEST = re.compile(
    r"[てで](?:ください|下さい|くださ(?:ーい|い)|ほしい|欲しい|ほしかった|欲しかった|くれ(?:ませんか|ないかな|ないですか|たら嬉し|たらうれし|ると嬉し|るとうれし)|"
    r"もらえ(?:ますか|ませんか|ると|たら|ないで)|いただけ(?:ますか|ませんか|ると|たら|ない)|頂け(?:ますか|ませんか|ると|たら|ない)|もらいたい|いただきたい)|"
    r"お願い(?:します|いたします|致します|しまーす|しますm|です|っ|！|!|。|$)|おねがいします|(?:を|の|、|\s|編|版|化|投稿|回)希望(?:します|です|！|!|。|$|\s)|"
    r"リクエスト(?:です|します|：|:)|(?:字幕|英語字幕|日本語字幕|歌詞)(?:を|も)?(?:つけ|付け|入れ)て|"
    r"(?:続編|続き|第[2-9二三四五]弾|パート[2-9２-９]|part ?[2-9]|[2-9２-９二三]期|後編|次回|フル|full).{0,8}(?:はよ|はやく|早く|まだ|待って|楽しみに待|希望|"
    r"お願い|頼|ください|欲しい|ほしい|求む|見たい|みたい$|聴きたい|聞きたい)|"
    r"(?:動画|やつ|企画|コラボ|シリーズ|解説|カバー|回|配信)(?:も|を|が)?(?:出|作|撮|や|し|上げ|あげ|投稿し)?(?:って|て)?(?:見たい|みたい(?:です|！|!|。|$)|ほしい|"
    r"欲しい)(?!な人)|"
    r"(?:求む|キボンヌ)[！!。]*$|[てで](?:くれ|ー|え|よ)?頼む|頼みます")
_JA_NO_REQUEST = re.compile(
    r"頑張|がんば|ガンバ|気を(?:つけ|付け)|気をお|無理(?:し|せず|なさら|は)|大事に|大切に|幸せ|しあわせ|元気で|お元気|長生き|生きて|休んで|休ま|体調|ご自愛|安心し|皆さん|みなさん|みんな|(?:て|で)ほしいくらい|"
    r"よろしく|宜しく|許して|ゆるして|助けて|たすけて|救って|自信を|誇り|胸を張|負けないで|信じて|待ってて|結婚して|付き合って|"
    r"(?:見|聞|聴い?|読|遊びに来|覗い|チェックし)て(?:みて)?(?:ください|下さい|ほしい|欲しい)|ログイン|結婚|"
    # advertising: who is to be subscribed to, liked, followed, visited
    r"(?:登録|高評価|グッド(?:ボタン)?|いいね|フォロー|フォロバ|相互|拡散|シェア|RT|リツイート|購読|サブスク)"
    r"(?:と|や|、|・|[&＆+])?(?:も|を|の(?:ほど|程))?、?(?:ぜひ|是非|どうか)?"
    r"(?:し(?:て|あ)|お願い|おねがい|御願い|頼|希望|ください|下さい|もらえ|いただけ|押|ポチ|$)|"
    r"(?:見|観|聞|聴|遊び|覗き|のぞき|応援し|応援)に(?:も)?(?:来|き)て|(?:来|き)て(?:ね|くださいね)[!。♪]*$|(?:覗|のぞ)いて|応援お願い|"
    r"(?:私|わたし|あたし|僕|ぼく|俺|おれ|うち|自分|当|こちら|弊社|我々)(?:たち|達)?の?(?:サブ)?"
    r"(?:チャンネル|ch|動画|配信|放送|曲|歌|作品|サイト|ブログ|インスタ|プロフ|アカウント|商品)|"
    r"プロフ(?:ィール)?(?:の|から|に|見)|リンクから|DM(?:ください|下さい|まで)|LINE(?:追加|登録)|無料(?:登録|プレゼント)|副業|ポチッ?っ?と")
# Not of who was taught something.
_JA_TELL = re.compile(r"(?:教|おし)えて(?!もらっ|くれて|くださって|くださり|下さって|下さり|いただい|いただき|頂い|頂き|あげ)|"
                      r"(?:知り|しり)たい(?:です|！|!|。|$)|質問(?:です|があ|なのです|ですが)|詳細(?:希望|求む|お願い)|"
                      r"(?:曲名|名前|値段|場所|リンク|タイトル)(?:を|は|が)?(?:知りたい|希望|求む|[?？]+$|なに|何)|"
                      r"(?:何て|なんて|何の|なんの)(?:曲|歌)")
_JA_QUESTION = re.compile(
    r"(?:です|ます|でした|ました|でしょう|ません|んだろう|だろう|のでしょう|たい)か(?:ね|な|ぁ|あ|ー|w|ｗ|笑)*[。.!?]*$|"
    r"(?:かな|かなぁ|かなあ|かしら|っけ|んだろ|んだろう|でしょうか)[。.?…]*$|(?:の|か|ん|る|た|い|は|って|何|なに|どこ|いつ|誰|だれ|どれ|ですか?)\?+$")
_JA_ASKING_WORD = re.compile(r"何|なに|なん(?:の|で|て|と|か月)|どこ|どう|どれ|どの|どんな|どちら|どっち|どなた|いつ(?!も|か|まで(?:も|経))|誰|だれ|なぜ|幾ら|"
                             r"いくら|いくつ|曲名")
_JA_NO_QUESTION = re.compile(
    # asked of the other viewers
    r"(?:人|方|ひと|やつ|奴|勢|同志|仲間)(?:って)?(?:は|が|も|、)?(?:い|居|お|おら)(?:る|ます|ません|ない|らっしゃ|ん)|(?:私|俺|僕|自分|ワイ|わたし|うち|"
    r"あたし)(?:だけ|のみ)|"
    r"(?:20[12]\d|今)年?(?:に|も|でも)?(?:なっても)?(?:見て|聞いて|聴いて)|みんな|皆さん?(?:は|も)|"
    # rhetorical
    r"(?:さすが|流石).{0,4}(?:です|だ)ね|"
    r"(?:く|じゃ|では|ぢゃ)(?:ない|ね|ありません)|(?:く|じゃ|では)な(?:い|いです)か|と思(?:いません|わない)|ませんか(?:ね|ー)*[?。!]*$(?<!くれませんか)|"
    r"(?:天才|神|天使|女神|プロ|鬼|化け物|バケモノ|最高|奇跡|嘘|うそ|ウソ|マジ|まじ|本気|正気|アホ|バカ|馬鹿|夢)(?:なの|なん)?(?:です)?か(?:な)?(?:よ)?[?!。]*$|"
    r"(?:何|なん|なに)(?:だ|や|じゃ)?(?:これ|この|こ(?:の|れ)は|だよ|それ)|どうした(?:の|ん)?[?!。]*$|どういうこと|でしょ(?:う)?[?!]+$|だろ[?!]+$|"
    r"^(?:そう|なるほど)|何回(?:見|聞|聴)|何度(?:見|聞|聴|でも)|(?:わか|分か)(?:る|ります)か|誰が.{0,12}(?:んだ|思った)|どれだけ|どんだけ|なんて(?:素|い|こと)|いつの間|"
    r"(?:なん|なぜ|どうし|何)[でて]?こんな|何か(?:を|が|に|の|と|あ)|なんか|どこか|いつか|誰か|誰も|何も|どうか|いつまでも|のか(?:と|も|は|が|を)|(?:とか|だとか|なんか)[?]*$")
_JA_POLITE = re.compile(r"(?:です|ます|でした|ました|でしょう)か")
_JA_SHORT_CHARACTERS = 4        # 'え?', 'なんで?': a reaction


def _japanese(sentence):
    to_viewers = _JA_NO_QUESTION.search(sentence)
    if (asked := _JA_TELL.search(sentence)) and not to_viewers:
        return "question", asked.start()
    if (asked := _JA_REQUEST.search(sentence)) and not _JA_NO_REQUEST.search(sentence):
        return "request", asked.start()
    asked = _JA_QUESTION.search(sentence)
    if not asked or to_viewers or len(sentence) < _JA_SHORT_CHARACTERS:
        return NOTHING
    return ("question", asked.start()) if _JA_POLITE.search(sentence) or _JA_ASKING_WORD.search(sentence) else NOTHING


_JUDGES = {"en": _english, "ja": _japanese}
# What every asking text holds, looked for first: most comments ask nothing.
_WORTH_READING = {
    "en": re.compile(r"\?|\b(?:please|pls|plz|kindly|need|want|should|hope|i'd|suggestion|request|idea|question|"
                     r"wondering|curious|may i|"
                     r"(?:can|could|would|will|any|some)(?: ?you| u| ya|one|body| any| some)|if (?:you|u)|part|"
                     r"wh(?:at|ich)(?:'?s)? .{0,30}(?:song|music|track|app|font|camera|mic|software|keyboard|"
                     r"editor|game|movie|anime|brand|"
                     r"artist|beat)|(?:what|which|where|when|how) (?:is|are|do|did|does|can|could|should))\b|"
                     r"^\W*(?:when next|(?:song|link|name)(?: name)?,? (?:please|pls|plz)|"
                     r"make|do|upload|create|next|bring|react|try|drop|(?:more|another|"
                     r"full) .{2,60}please)\b", re.M),
    "ja": re.compile(r"[?か]|教え|おしえ|たい|ください|下さい|ほしい|欲しい|お?願い|ねがい|希望|求|リクエスト|字幕|歌詞|(?:何|なん)[ての](?:曲|歌)|続|パート|part|期|弾|っけ|もら|いただ|頂|"
                     r"くれ|頼|質問|後編|次回|フル|full")}
