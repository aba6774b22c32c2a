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


def _one_of(*lines: str, before: str = "", after: str = "") -> re.Pattern[str]:
    """Any of the patterns, which are written with spaces between them, between two others."""
    return re.compile(f"{before}(?:{'|'.join(' '.join(lines).split())}){after}")


_SENTENCE = re.compile(r"[^。!?\n]+[。!?\n]*")
_CLAUSE_END = _one_of(r"[。、,.…!?\n「」()\s] けれど けど (?<!も)のに (?<![分わ解])から(?!な) ので たら (?<!で)すが",
                      r"(?<=[いるただやゃうんか])け(?:ん|え|ー)(?!な) さかい(?!な) ばってん",
                      # 'So scary that …', 'in the way and …': what is denied behind it is something else.
                      r"(?:すぎ|過ぎ)て くて(?![はも]) (?<=[^\Wぁ-ん])で(?![はもすきなしあいけ])")

# Holds a negation's letters without denying anything: 'must be', 'only', 'cannot stop', 'surely' …
_NO_NEGATION = _one_of(
    r"しか[^、。]{0,3}(?:な[いか]|ん|へん|ね[えー]) (?:に|で)?違いな に違いありません 以外(?:の?何物でも)?な",
    r"[止と]まら?[なん] やま[なんず] [堪た]ま(?:ら)?[なん] やめられ[なん] 離[れせ][なん]",
    r"忘れられ[なんへ] (?:見逃|欠か|外)せ[なんへ] (?:には?|にも)負け[なんへ] 言葉(?:にな|が出|が見) でなら[なん] てなら[なん]",
    r"半端な ハンパな ぱな とんでもな しょうがな しょーがな しゃーな しかたな 仕方が?な 限りな この上な 何気な さりげな もったいな そつな",
    r"ざるを得[なん] ずには?[いお]られ[なんまへ] ないでは[いお]られ[なま] わけにはいかな (?:だけ|ばかり)(?:で|じゃ)は?な のみならず",
    # Asked for agreement
    r"(?:じゃ|では)ない(?:です)?か じゃないの(?=$|[。?!]) じゃな?ね?[いー]?の?[?] く[なね](?:い|ー|え|ーい)?(?:の|か|です)?か?[?]",
    r"すぎ(?:ない|ん)か?[?] すぎ(?:ひん|へん|ん) ませんか ないですか なんじゃな のではな",
    # 'Must', 'if not', 'please do not'
    r"なくちゃ なきゃ なければ な(?:い|かった)ら ないと(?!思|言|感|い) ないで(?:くれ|ほし|欲し|くださ|[。!?\s]|$) なくな(?:い|く)?ら",
    # Of the west and the south: 'I suppose it is', 'isn't it?', '… though I would not know'
    r"ん(?:と|や)?ちゃう ちゃう(?:ん?か|やろか|の?[?]|ん[?]) ちゃいますか (?:^|[わでなやねぞよ])知らん$ 知らん[顔ぷ]",
    r"すい?ません すみません かも(?:しれ|知れ|わか|分か)ら?[なんま] (?:の|ん)か[はも]?(?:よく|まだ)?(?:分か|わか|知)ら",
    # A noun after what is said of it: 好きないちご, 素敵なくるま, 綺麗なかっぱ, 好きなしごと
    r"^な(?:い(?!$|\W|[わしでよねとんのけかやぞさーっもこじがw笑]|な(?!か))|かっ(?!た|$)|く(?!$|\W|[てもなは])|し(?!$|\W|[でにのだ]))",
    # Other words of these letters
    r"まず 必ず 思わず おもわず 相変わらず 関わらず かかわらず 負けず 残らず 知らず知らず はず(?!が|もな|な) ずっと ずつ 恥ず ずる ずれ ずば",
    r"いずれ わずか おのずと みんない なんとな 少な 危な 切な はかな つたな")
# A verb as it stands before its denial. Kana that need not be one (みか|ん, いちば|ん, おか|ず) are none.
_STEM = "|".join((
    "[一-龠][えけせめべげ](?<![流眺考答晴憧幸].)|(?<=[一-龠])れ(?<![流晴憧別疲汚俺彼我].)|[一-龠]ら(?<![彼僕俺奴君我].)|[一-龠][わば](?<!一.)",
    "[行好聞聴書効響動続届描泣引向着付浮湧焼抜吹利開空歩働叩置咲弾招築導輝傾除驚]か|[泳騒仰防急稼]が|[勝待持立経打育]た|[話許出返消押示離増減殺残直指]さ",
    "[読進済好住休飲頼込踏望含組積挑惜悩拒憎]ま|[勝持捨立育]て|死な|[見観寝来出似得着]|でき|出来|[信感]じ|[起飽生尽]き|足り|落ち",
    "(?:[わ分解]か|つま|[終変決伝関]わ|止ま|当た|上が|下が|収ま|見つか|助か|い|お|し|入|な|や|た|あ|と|くだ|はま|ささ|刺さ)ら",
    "(?:おも|つか|ちが|もら)わ|(?:おも|もら|みつけら|きこ|つか|わら|み)え|[らさなくしき]れ|(?:[一-龠ァ-ヶーはも]|(?<![一-龠])[をに])せ|みとめ|ほめ|たべ|れせ"))
_NEGATION = _one_of(
    r"な(?:い(?!い)|かっ|く(?!せ)|き(?=$)) (?<!は)なし 無[しいく] 無かっ ませ[んぬ] わけが?(?:な|あ[りら]) はず[がも]?な",
    # Spoken and of the regions: 良くねー, 行かへん, できひん, 食べやん, うまぐね, 好きじゃなか
    r"(?:[くぐ]|じゃ)(?:ね(?:え|ー|よ|わ|な|$)|にゃ) わがんね (?<!たい)(?<!こら)(?<=[わらかがさたばまえけせれべめてりきしみち])へん",
    r"(?<=[きしちにみりびじえけ])ひん(?=$|\W|[わしよ]|かった|ね) (?:でき|出来|食べ|られ|[^こそあ]れ)やん (?:[くう]|じゃ|や|では)なか(?!な)",
    r"(?:(?<!ん)と|わけ|訳|もん|気)ちゃ(?:う|いま)",
    r"ゼロ 皆無 程遠 ほど遠 とは言い難 とは言いがた に欠け")
# 知らん, 飽きず, 許さぬ, 笑えねえ; looked for only where one of the letters is.
_DENYING = re.compile("[んずぬね]")
_DENIED = _one_of(r"ん(?!だ|で[すもき]|じゃん|の[?]|[ちどぐぷ]) ず(?=$|に) ぬ(?=$|\W|わ) ね(?:え|ー|よ?$)", before=f"(?:{_STEM})")
_DENIED_VERB = re.compile(r"[れらしえせけめ]?(?:ん(?=$|\W|[わしがぞ]|かった|よう|ねん|から|け[んえー]|[ばた]い|とよ|のう)|ず(?=$|に)|へん|ひん)")
# 'Is not', of Kansai; 泣いちゃう and 出ちゃう are verbs.
_IS_NOT = re.compile(r"(?:(?<=[ァ-ヶー一-龠])(?<![出見寝来似着])|(?<=好き|すき|嫌い|れい))ちゃ(?:う|いま)(?!やろか|ん?か|すか|の?[?]|ん[?])")

# What stands before 'but' counts less than what stands after it.
_CONCESSION = _one_of(r"けれど けど けんど ばってん だども (?<!も)(?<!いい)のに(?!お|な[ーあぁ]) ですが ますが ましたが でしたが くせに ものの",
                      r"(?<=[いただるう])が[、,\s] 割に 割と言われ")
_TURN = _one_of("でも しかし だけど けど [せほ]やけど じゃけど ばってん ただ(?!いま) だが なのに ところが それでも ですが とはいえ その割に", before=r"[\s、]*")
_SAYS_SOMETHING = re.compile(r"\w{2,}")

# Only mentioned: 'whether it is', 'if it is', 'people who are', 'when it is', 'said to be' …
_SUPPOSED = _one_of(
    r"かどうか か[はも]?(?:まだ)?[分わ]から かは なら(?!ない|ん) な[人方](?:は|も|に|へ|で) なひと(?:は|も|に|へ|で)",
    r"(?:場合|とき|時|際)[はにの、] た?ら(?:教え|報告|直|また|登録|買) ければ(?!な)",
    r"(?:って|と)は(?:何|なに|どう) の(?:意味|定義|対義語|反対語|類語|英語)",
    r"(?:って|とか?)(?:いう)?(?:言(?:って[たる]|われ)|聞[いき]|噂|評判|書い[てた])", before="[いたるなだっかく]{0,3}")
_QUOTED = re.compile(r"」(?:の|って|と(?:い|は|聞|言)|を|は)")
_HELD_AGAINST = _one_of("言ってい?る 言ってた いう 言う 抜かす ほざ 言われて", before="(?:とか|って|と|みたいに)",
                        after="(?:やつ|奴|人|ひと|方|の|バカ|アホ|けど|が)")

_QUESTION_WORD = _one_of(
    r"何(?!度|回(?!目)|も|と|より|この|これ|や|な) なん(?:の|て[名曲言読]|ですか|だっけ|年|時) なに[をか] どこ だれ 誰(?!も|が何)",
    r"どれ(?!も|だけ) どの(?!曲も) どっち どちら いつ(?!も|まで|か) いくら いくつ どんな",
    r"どう(?:です|でしょ|なん|違|すれ|いう意味|やって[^る]{0,4}ますか)")
_WHAT_IS = re.compile("(?:どこ|何|なに)が")
_ASKS = _one_of(r"か[?。]*$ [?]$ の[?。]*$ 教えて おしえて 知りたい だろう?$ でしょう?$ っけ")
_ASKS_POLITELY = _one_of("(?:あり|い|でき|出来|られ|れ|使え|なり|し|もらえ)ますか 教えて 探して おしえて か知りたい か気になる でしょうか")
_EXCLAIMS = _one_of("なんで(?!す) 何で(?!す) どうして なぜ なんて(?![名曲言読]) なんと どんだけ どれだけ どこまで いつも")
# 'What is good about it?' is no question.
_DOUBTED = _one_of(r"(?:どこ|何|なに|どの辺|どのへん)が[^、。?!]{0,4}$",
                   r"(?:言うほど|いうほど|そこまで|(?<![てで])そんなに)[^、。?!]{0,6}$")
_DOUBT = re.compile(r"[^、。!]{0,5}(?:の|ん|か|だ|教えて|分から|わから|さっぱり|[?]$|$)")

_WISHED = _one_of(
    r"[なに]?(?:して|なって|やって|作って|あって)(?:ほし|欲し|くれ(?!て|た)|くださ|もらい)",
    r"(?:だっ|だ|っ)?たら(?:な[あぁー]|よかった|良かった|いいのに|良いのに|最高(?:な|だった)のに|もっと)",
    r"(?:けれ|れ|なら)ば(?:な[あぁー]|よかった|良かった|いいのに|いいんだけど) だ?と(?:いい|良い)(?:のに|な|けど)",
    r"[いだのな]?か(?:と|って)思(?:った|って) [いだ]?と(?:思|聞い|期待し)(?:った|ってい?た|た)のに",
    r"はず(?:だった|なの|だ)(?:のに|けど|が) べきだ(?:った|ろ)",
    r"(?:[だや]っ|じゃっ|かっ|(?:に?して)?い?て?)たのに(?!気)", before="(?:くなる|になる|[いたるっくかに]{0,2})")
_BEFORE = _one_of(
    r"(?:以前|昔|前|前回|前作|初期|旧作|旧版|原作|原曲|本家|一期|1期|旧|古い|元|無印|他|別)[^、。!?]{0,6}(?:方が|ほうが|のが|が一番)",
    r"(?:昔|以前|前|初期|当時|最初|途中まで|始め)(?:の頃)?は", after=r"[^、。!?]{0,6}$")
# 'It would be … if', said of what is not so; and what would please, which is a request.
_IF = re.compile(r"(?:[けれせえてめげべね]ば|[ただ]ら|なら|さえ)[^、。!?]{0,8}$")
_UNMET = re.compile(r"(?:[いただるなできやじゃ]|出来|ら?れ|かった|[だや]った|なん)*(?:のに(?!気)|ん(?:だ|です|や)(?:けど|が)|だけど|ですけど|(?:だろ|でしょ)うに)")
_WOULD_PLEASE = re.compile(r"(?:(?:くれ|もらえ|いただけ|頂け|くださ|下さ)(?:たら|れば|ると|ば)"
                           r"|(?:もっと|もう少し|もうちょっと|あと|せめて|字幕|歌詞)[^、。!?]{0,9}(?:ば|たら|[るいだ]と))[^、。!?]{0,3}$")
_WANTED = re.compile(r"[^、。!?]{0,12}(?:[がをもは]|(?<!く)て)(?:ほし|欲し)かった(?!もの|物|やつ|曲)")
_MORE = re.compile(r"(?:もっと|もう少し|もうちょっと)[^、。!?]{0,8}$")
_HOPED = re.compile(r"[^、。!?]{0,10}(?:ほし|欲し|と思って(?:い?た|ました)|はず)")
_STRONGER = _one_of(
    "めっちゃ めちゃ むちゃ くちゃ すご[くい] すっごい? 凄く とても とっても 非常に 本当に ほんと(?:に|うに)? ほんま(?:に)? まじで? マジで?",
    "がちで? ガチで? 超 激 鬼 クソ くそ クソほど バカ ばり でら なまら ぶち めっさ ちょー 最高に 一番 断然 かなり 相当 圧倒的に 死ぬほど",
    "一生 大?変", after="$")
# Before another word they only make it stronger: クソ可愛い.
_CURSED_PRAISE = frozenset("クソ くそ 糞 バカ ばか 馬鹿 アホ あほ 神 やば ヤバ".split())
_WEAKER = _one_of("ちょっと 少し すこし やや 若干 多少 まあまあ そこそこ わりと 割と なんとなく 微妙に", after="$")

_IRONY = _one_of(r"[(](?:棒|棒読み|皮肉|嫌味|呆れ|呆|白目|褒めてない|誉めてない)[)] 棒読み$ (?:^|[。!\s])はいはい",
                 "ですかそうですか (?:ご立派|結構)なこと")
_MEANT_WELL = _one_of(r"褒め(?:てる|てい?ます|言葉) 誉めて いい意味で 良い意味で \((?:最高|褒|誉|好き|歓喜|ありがとう)")

# Shed when moved as much as when sad.
_CRYING_FACE = emoji.TABLE["😭"]


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
                and not _WHAT_IS.search(sentence))


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
    if word.weight > 0 and (_WISHED.match(after) or _WANTED.match(after) or _BEFORE.search(before)
                            or _IF.search(before) and _UNMET.match(after)
                            or _MORE.search(before) and _HOPED.match(after)
                            or _DOUBTED.search(before) and _DOUBT.match(after)):
        return _turned(word, MISSED_BY)
    if word.weight > 0 and _WOULD_PLEASE.search(before):
        return word._replace(weight=word.weight * MENTIONED_BY)
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
    times = len(_NEGATION.findall(clause)) + (len(_DENIED.findall(clause)) if _DENYING.search(clause) else 0)
    return times or bool(_DENIED_VERB.match(clause) or _IS_NOT.match(sentence, match.end))


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
