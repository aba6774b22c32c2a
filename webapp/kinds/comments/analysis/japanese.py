"""How a Japanese comment feels: the lexicon's words, read in what stands around them.

No tokenizer and no dictionary of the language: words are found as they are written (``lexicon``), and
rules say what becomes of them when they are denied, asked, wished, supposed, compared or conceded.
"""
import re
from bisect import bisect_right
from typing import NamedTuple

from . import emoji, lexicon

NEGATION_MAX_CHARACTERS = 12
NEGATED_BY = -0.8
# 'not unfunny', 'not that it is not good': still praise, but less of it.
DENIED_TWICE_BY = 0.6
CONCEDED_BY = 0.4
# Of a word that is only mentioned: asked about, quoted, supposed.
MENTIONED_BY = 0.15
# Of praise that is wished for, expected in vain, or for what was before.
MISSED_BY = -0.7
STRONGER_BY, WEAKER_BY = 1.3, 0.6

_SENTENCE = re.compile(r"[^。!?\n]+[。!?\n]*")
_CLAUSE_END = re.compile(r"[。、,.…!?\n「」()\s]|けれど|けど|(?<!も)のに|から(?!な)|ので|たら|(?<!で)すが|(?:すぎ|過ぎ)て|くて(?![はも])|(?<=[^\Wぁ-ん])で(?![はもすきなしあい])")

# Holds a negation's letters without denying anything: 'must be', 'only', 'cannot stop', 'surely' …
_NO_NEGATION = re.compile(
    r"かもしれ(?:な|ま|ん)|しか(?:[^、。]{0,3})な[いか]|しか(?:勝た)?ん|(?:に|で)?違いな|に違いありません|以外(?:の何物でも|何物でも)?な"
    r"|[止と]まら?(?:な|ん)|やま(?:な|ん|ず)|[堪た]ま(?:ら)?(?:な|ん)|やめられ(?:な|ん)|離(?:れ|せ)(?:な|ん)|でなら(?:な|ん)|てなら(?:な|ん)"
    r"|半端な|ハンパな|ぱな|とんでもな|しょうがな|しょーがな|しゃーな|しかたな|仕方(?:が)?な|限りな|この上な|何気な|さりげな|もったいな"
    r"|ざるを得な|ずには(?:い|お)られ(?:な|ん|ま)|ないでは(?:い|お)られ(?:な|ま)|わけにはいかな|(?:だけ|ばかり)(?:で|じゃ)(?:は)?な|のみならず"
    r"|(?:じゃ|では)な(?:い|いです)?か|じゃないの(?=$|[。?!])|じゃな?ね?(?:い|ー)?の?[?]|く(?:な|ね)(?:い|ー|え|ーい)?(?:の|か|です)?(?:か)?[?]|すぎ(?:ない|ん)か?[?]"
    r"|すぎ(?:ひん|へん|ん)|ませんか|ないですか|なくちゃ|なきゃ|なければ|な(?:い|かった)ら|ないと(?!思|言|感|い)|なんじゃな|のではな"
    r"|ないで(?:くれ|ほし|欲し|くださ|[。!?\s]|$)|なくな(?:い|く)?ら|そつな"
    r"|まず|必ず|思わず|おもわず|相変わらず|関わらず|かかわらず|負けず|残らず|知らず知らず|はず(?!が|もな|な)|ずっと|ずつ|恥ず|ずる|ずれ|ずば|いずれ|わずか|おのずと"
    r"|みんない|なんとな|少な|危な|切な|はかな|つたな")
_NEGATION = re.compile(
    r"な(?:い(?!い)|かっ|く(?!せ)|き(?=$))|(?<!は)なし|無し|無い|無く|無かっ|ませ[んぬ]|ず(?:$|に|、)|(?:く|じゃ)ね(?:え|ー|よ|わ|$)|(?<!か)(?<=[らかがばまえけせれべめ])ね(?:え|ーよ?$)|へん|(?<=[らかがたばまられえけせてねべめ])ん(?:$|わ|し|かった)|ゼロ|皆無|程遠|ほど遠"
    r"|にくいとは|とは言い難|とは言いがた|に欠け|わけが?(?:な|ありませ)|はず(?:が|も)?な")
_DENIED_VERB = re.compile(r"(?:れ|ら|し|え|せ|け|め)?ん(?=$|[\W]|わ|し|かった|よう|ねん|から)")

# What stands before 'but' counts less than what stands after it.
_CONCESSION = re.compile(r"けれど|けど|けども|(?<!も)(?<!いい)のに(?!お)|ですが|ますが|ましたが|でしたが|くせに|ものの|(?<=[いただるう])が[、,\s]|割に|割と言われ")
_TURN = re.compile(r"[\s、]*(?:でも|しかし|だけど|けど|ただ(?!いま)|だが|なのに|ところが|それでも|ですが|とはいえ|その割に)")
_SAYS_SOMETHING = re.compile(r"\w{2,}")

# Only mentioned: 'whether it is', 'if it is', 'people who are', 'when it is', 'said to be' …
_SUPPOSED = re.compile(
    r"[いたるなだっかく]{0,3}(?:かどうか|か(?:は|も)?(?:まだ)?(?:分|わ)から|かは|なら(?!ない|ん)|な(?:人|方|ひと)(?:は|も|に|へ|で)|(?:場合|とき|時|際)(?:は|に|の|、)"
    r"|(?:た)?ら(?:教え|報告|直|また|登録|買)|ければ(?!な)|(?:って|と)は(?:何|なに|どう)|の(?:意味|定義|対義語|反対語|類語|英語)"
    r"|(?:って|と|とか)(?:いう)?(?:言(?:って(?:た|る)|われ)|聞(?:い|き)|噂|評判|書い(?:て|た)))")
_QUOTED = re.compile(r"」(?:の|って|と(?:い|は|聞|言)|を|は)")
_HELD_AGAINST = re.compile(r"(?:とか|って|と|みたいに)(?:言って(?:る|いる|た)|いう|言う|抜かす|ほざ|言われて)(?:やつ|奴|人|ひと|方|の|バカ|アホ|けど|が)")
_QUESTION_WORD = re.compile(r"何(?!度|回(?!目)|も|と|より|この|これ|や|な)|なん(?:の|て(?:名|曲|言|読)|ですか|だっけ|年|時)|なに(?:を|か)|どこ|だれ|誰(?!も|が何)|どれ(?!も|だけ)|どの(?!曲も)|どっち|どちら|いつ(?!も|まで|か)"
                            r"|いくら|いくつ|どう(?:です|でしょ|なん|違|すれ|いう意味|やって[^る]{0,4}ますか)|どんな")
_ASKS = re.compile(r"か[?。]*$|[?]$|の[?。]*$|教えて|おしえて|知りたい|だろう?$|でしょう?$|っけ")
_ASKS_POLITELY = re.compile(r"(?:あり|い|でき|出来|られ|れ|使え|なり|し|もらえ)ますか|(?:を|が)?(?:教えて|探して|おしえて)|(?:か|のか)(?:知りたい|気になる|気になります)|でしょうか")
_EXCLAIMS = re.compile(r"なんで(?!す)|何で(?!す)|どうして|なぜ|なんて(?!名|曲|言|読)|なんと|どんだけ|どれだけ|どこまで|いつも")
# 'What is good about it?' is no question.
_DOUBTED = re.compile(r"(?:どこ|何|なに|どの辺|どのへん)が[^、。?!]{0,4}$|(?:言うほど|いうほど|そこまで|そんなに)[^、。?!]{0,6}$")
_DOUBT = re.compile(r"[^、。!]{0,5}(?:の|ん|か|だ|教えて|分から|わから|さっぱり|[?]$|$)")

_WISHED = re.compile(
    r"(?:くなる|になる|[いたるっくかに]{0,2})(?:(?:な|に)?(?:して|なって|やって|作って|あって)(?:ほし|欲し|くれ(?!て|た)|くださ|もらい)|(?:だっ|だ|っ)?たら(?:な[あぁー]|よかった|良かった|いいのに|良いのに|最高(?:な|だった)のに|もっと)"
    r"|(?:けれ|れ|なら)ば(?:な[あぁー]|よかった|良かった|いいのに|いいんだけど)|(?:だ)?と(?:いい|良い)(?:のに|な|けど)|(?:い|だ|の|な)?か(?:と|って)思(?:った|って)|(?:い|だ)?と(?:思|聞い|期待し)(?:った|って(?:い)?た|た)のに|はず(?:だった|なの|だ)(?:のに|けど|が)|べきだ(?:った|ろ))")
_BEFORE = re.compile(r"(?:(?:昔|以前|前|前回|前作|初期|旧作|旧版|原作|原曲|本家|一期|1期|旧|古い|元|無印|他|別)[^、。!?]{0,6}(?:方が|ほうが|のが|が一番)|(?:昔|以前|前|初期|当時|最初|途中まで|始め)(?:の頃)?は)[^、。!?]{0,6}$")
_STRONGER = re.compile(r"(?:めっちゃ|めちゃ|むちゃ|くちゃ|すご[くい]|すっごい?|凄く|とても|とっても|非常に|本当に|ほんと(?:に|うに)?|ほんま(?:に)?|まじで?|マジで?|がちで?|ガチで?|超|激|鬼|クソ|くそ|クソほど|バカ|ばり|でら|なまら|ぶち|めっさ|ちょー|最高に|一番|断然|かなり|相当|圧倒的に|死ぬほど|一生|(?:大)?変)$")
# Before another word they only make it stronger: クソ可愛い.
_CURSED_PRAISE = frozenset("クソ くそ 糞 バカ ばか 馬鹿 アホ あほ 神 やば ヤバ".split())
_WEAKER = re.compile(r"(?:ちょっと|少し|すこし|やや|若干|多少|まあまあ|そこそこ|わりと|割と|なんとなく|微妙に)$")

_IRONY = re.compile(r"[(](?:棒|棒読み|皮肉|嫌味|呆れ|呆|白目|褒めてない|誉めてない)[)]|棒読み$|(?:^|[。!\s])はいはい|ですか(?:そうですか)|(?:ご立派|結構)なこと")
_MEANT_WELL = re.compile(r"褒め(?:てる|て(?:い)?ます|言葉)|誉めて|いい意味で|良い意味で|\((?:最高|褒|誉|好き|歓喜|ありがとう)")


class Japanese(NamedTuple):
    """A score in [-1, 1] and one of the nine emotions."""

    score: float
    emotion: str


class _Felt(NamedTuple):
    emotion: str
    weight: float
    ambivalent: bool


def read(text: str, signs: list[emoji.Sign]) -> Japanese:
    """The score and the emotion of a prepared Japanese text and the emoji taken out of it.

    score = Σ weights / √n over the n words and signs that take a side. A word soon denied turns round
    at 0.8; what is conceded ('…けど') counts 0.4; what is only mentioned, 0.15; words that are praise or
    blame by context (やばい, 無理, tears) take the side of the others.
    """
    text = lexicon.even(text.lower())
    felt: list[_Felt] = []
    for sentence in _SENTENCE.findall(text):
        if _TURN.match(sentence):
            felt = [word._replace(weight=word.weight * CONCEDED_BY) for word in felt]
        felt += _sentence(sentence)
    if _IRONY.search(text):
        felt = [_turned(word, -1.0) if word.weight > 0 else word for word in felt]
    others = signs + emoji.emoticons(text) + emoji.laughter(text)
    felt += [_Felt(*sign, sign == _CRYING_FACE) for sign in others]
    return _result(_with_sides(felt, bool(_MEANT_WELL.search(text))))


_CRYING_FACE = emoji.TABLE["😭"]


def _sentence(sentence: str) -> list[_Felt]:
    """What the words of one sentence say in it."""
    matches = lexicon.find(sentence)
    if not matches:
        return []
    concessions = [match.start() for match in _CONCESSION.finditer(sentence)
                   if _SAYS_SOMETHING.search(sentence, match.end())]
    asked = _is_question(sentence)
    ends = [*(match.start for match in matches[1:]), len(sentence)]
    found = []
    for match, following in zip(matches, ends):
        if match.end == following < len(sentence) and sentence[match.start:match.end] in _CURSED_PRAISE:
            continue
        word = _in_context(sentence, match, following)
        if asked:
            word = word._replace(weight=word.weight * MENTIONED_BY)
        if bisect_right(concessions, match.end - 1) < len(concessions):
            word = word._replace(weight=word.weight * CONCEDED_BY)
        found.append(word)
    return found


def _is_question(sentence: str) -> bool:
    """A question for facts, which takes no side. 'Why is she so good?' is none."""
    if _EXCLAIMS.search(sentence):
        return False
    return bool(_ASKS_POLITELY.search(sentence) or _QUESTION_WORD.search(sentence) and _ASKS.search(sentence)
                and not re.search(r"(?:どこ|何|なに)が", sentence))


def _in_context(sentence: str, match: lexicon.Match, following: int) -> _Felt:
    """The word after what stands around it. The next word has its own negation."""
    word = _Felt(match.word.emotion, match.word.weight, match.word.ambivalent)
    before = sentence[max(0, match.start - NEGATION_MAX_CHARACTERS):match.start]
    after = sentence[match.end:match.end + 2 * NEGATION_MAX_CHARACTERS]
    if _HELD_AGAINST.match(after) and word.weight < 0 or _SUPPOSED.match(after) or _QUOTED.match(after):
        return word._replace(weight=word.weight * MENTIONED_BY)
    if _STRONGER.search(before):
        word = word._replace(weight=word.weight * STRONGER_BY)
    elif _WEAKER.search(before):
        word = word._replace(weight=word.weight * WEAKER_BY)
    denials = _denials(sentence, match, following)
    if denials:
        return _turned(word, NEGATED_BY) if denials % 2 else word._replace(weight=word.weight * DENIED_TWICE_BY)
    if word.weight > 0 and (_WISHED.match(after) or _BEFORE.search(before)
                            or _DOUBTED.search(before) and _DOUBT.match(after)):
        return _turned(word, MISSED_BY)
    return word


def _denials(sentence: str, match: lexicon.Match, following: int) -> int:
    """How often a word is denied within its clause."""
    # 'So scary that I cannot look' denies the looking.
    if match.word.closed or sentence.endswith("すぎ", match.start, match.end):
        return 0
    limit = min(match.end + NEGATION_MAX_CHARACTERS, following)
    end = _CLAUSE_END.search(sentence, match.end, limit)
    limit = end.start() if end else limit
    # The question mark is needed: 'isn't it good?' denies nothing.
    clause = _NO_NEGATION.sub("＿", sentence[match.end:limit] + ("?" if sentence[limit:limit + 1] == "?" else ""))
    return len(_NEGATION.findall(clause)) or bool(_DENIED_VERB.match(clause))


def _turned(word: _Felt, by: float) -> _Felt:
    """The word as its opposite: praise denied disappoints, blame denied is praise, fear denied is ease."""
    if word.weight > 0:
        emotion = "sadness"
    else:
        emotion = "joy" if word.emotion == "fear" else "love"
    return _Felt(emotion, word.weight * by, False)


def _with_sides(felt: list[_Felt], meant_well: bool) -> list[emoji.Sign]:
    """The words with their sides taken: those that are praise and blame alike go with the others."""
    side = 1.0 if meant_well else sum(word.weight for word in felt if not word.ambivalent)
    signs = []
    for word in felt:
        emotion, weight = word.emotion, word.weight
        if word.ambivalent and side:
            weight = abs(weight) if side > 0 else -abs(weight)
            if (weight > 0) != (word.weight > 0):
                emotion = "love" if weight > 0 else "sadness"
        signs.append((emotion, weight))
    return signs


def _result(signs: list[emoji.Sign]) -> Japanese:
    """The balance of the signs, and the emotion of those on its side."""
    score = emoji.balance(sign for sign in signs if sign[1])
    agreeing = [sign for sign in signs if sign[1] * score > 0 or not sign[1]]
    return Japanese(score, emoji.emotion(agreeing) or "neutral")
