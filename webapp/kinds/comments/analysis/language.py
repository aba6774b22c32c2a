"""Which language a comment is in, by script and by stop words; and the text made safe to read.

Rule: kana means Japanese, hangul Korean, han alone Chinese, Latin English unless the stop words of
another language say otherwise; any other script is 'other'. 'none' is a text without words.
"""
import re
import unicodedata

TEXT_MAX_CHARACTERS = 2_000
# A comment shows its language early: more words only cost time.
_STOP_WORD_MAX_WORDS = 60
# From this many words on, a text without one English stop word is not English.
_ENGLISH_NEEDS_STOP_WORD_FROM_WORDS = 7

_INVISIBLE = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]")
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffc-\uffff]")
# Marks that pile up on letters ('zalgo'). The marks of Thai, Indic, Arabic or kana are not here.
_STACKED_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")
_ADDRESSES = re.compile(r"(?:https?://|www\.)\S+|(?<!\w)@[\w.\-]+", re.IGNORECASE)
_CURLY = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"'})

_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff]")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3005]")
_LATIN = re.compile("[A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]")
_WORD = re.compile("[^\\W\\d_]+(?:'[^\\W\\d_]+)*")
# Written in Japan only: neither the simplified nor the traditional Chinese form of the character.
_JAPANESE_HAN = re.compile("[々応楽気広対駅円戦図変売読経済発験様働込畑峠歩毎涙悪竜圧価仮団囲塩"
                           "歓観巻関顔黒砕桜雑児実収従縦処乗浄剰畳嬢譲醸焼証奨帯滞滝択沢単弾"
                           "渋獣総聴転伝徳拝髪抜仏辺満黙訳薬謡頼覧隷齢労録徴鋭鉄続]")
# What a Japanese viewer writes as a whole comment, in characters that Chinese has too.
_BARE_JAPANESE = frozenset("最高 最強 最悪 神 神回 神曲 名曲 良曲 優勝 鳥肌 爆笑 号泣 素敵 綺麗 尊 圧巻 感謝 "
                            "流石 可愛 天才 感動 完璧 無理 待機 共感 納得".split())

# Without those that are words of other languages too: no, me, a, as, do, has, in, on, video …
_ENGLISH = frozenset(
    "the and you that was for are with his they this have from not but what all were when your can said there "
    "each which she how their will other about out many then them these some her would make him two more could "
    "who its been now than people my did get may only my i is it of to we be at if just don't it's "
    "i'm im dont that's you're can't he'd i've i'll didn't doesn't why because where also even really very good great "
    "love like "
    "best thank thanks nice wow amazing much any our us by up here know think never ever every first "
    "watch song still too lol omg yes yeah should one after before being does going got want need "
    "new whole took take look looking looks always life probably maybe right wrong old big little long years year days "
    "man guy guys hey eat eats makes made play game games music movie show episode part end start again something "
    "thing things getting feel feels pretty let's lets watching saw say says said give gave keep while until since "
    "almost already can't cant won't wasn't isn't that'll there's what's here's gonna gotta wanna without between both "
    "enough though through under against another same such own next last back down off around away hope please "
    "sorry wait wish sure though world money work working heard remember learn free best beautiful bad better".split())
_OTHERS = frozenset(
    # Spanish and Portuguese
    "que el los las una un por para con pero como más mas esta este está muy qué porque cuando también todo todos "
    "gracias mejor eres soy hola bien sin sobre desde hasta hay tiene ser fue yo tu mi su es lo del al se le te "
    "não nao você voce uma muito isso esse essa ele ela mais meu minha obrigado obrigada seu sua são pra tem foi "
    "este encanta gusta amo esa ese eso nos ustedes siempre nunca aqui aquí ahora canción cancion saludos desde jaja "
    "melhor cara aqui então os da dos na em eu vc né muita todos "
    # French
    "le les des une est et pas dans pour qui sur avec vous nous ce cette je tu il elle mais très tres merci c'est "
    "j'ai j'adore trop aussi tout bien être suis sont mon ma du au ça ca comme quel "
    # German and Dutch
    "der das und ist nicht ein eine ich du sie wir mit auf für fur den dem von zu auch sich wie aber noch nur sehr "
    "schon gut mir mich dich immer wenn oder danke het een niet voor van dat ik jij zijn heb maar ook heel goed wel "
    # Italian
    "che di non è sono il gli della per questo questa molto ciao grazie anche più piu ho hai bello bellissimo sei "
    # Indonesian, Malay, Filipino
    "yang dan ini itu tidak aku kamu saya dengan untuk dari bisa ada sudah juga banget nya lagu kita semua gak kalo "
    "ang ng mga sa ako ikaw naman lang po ko mo yung talaga siya hindi kayo salamat ganda "
    # Turkish, Polish, Romanian, Vietnamese, Scandinavian
    "bir ve bu çok cok için icin ama ben sen değil degil güzel guzel gibi daha var yok abi nie jest się sie to co "
    "jak ale tak dla już bardzo tylko și si nu este foarte pe cu mai sunt là của và có không khong một mot người "
    "bạn cho rất hay och att det som är jag inte på og ikke jeg er på med "
    # Romanised Hindi and Urdu
    "hai hain kya nahi nhi bhai ka ki ke ko se aur mein kar raha bahut bhut yaar koi tum hum bhi tha thi acha accha "
    "sir ji ye yeh wo woh kuch mera mere tera".split())
# Words of English too, or of English names: they prove nothing by themselves.
_WEAK = frozenset("to me a no co by an do in is sir hay sue mi es al se os da na em eu il ma du au par pour est ca he cara "
                  "sin mas all die den gut wet war of as us most man der var so con my tu su el la le te ya er med "
                  "ben sei ang po mo sa ka ki ke ko ve sen abi pe cu hum mot mere wo ye van has will just fur".split())


def prepare(text: str) -> str:
    """The text as every analyser reads it: bounded, without what cannot be read, in one form.

    At most ``TEXT_MAX_CHARACTERS`` characters, NFKC (full-width letters become plain ones), without
    control, zero-width, direction and tag characters, lone surrogates, stacked marks, addresses of
    pages and mentions of people; curly quotation marks are straight ones.
    """
    text = text[:TEXT_MAX_CHARACTERS]
    if not text.isascii():
        text = _UNREADABLE.sub(" ", _INVISIBLE.sub("", text))
        # One character can become eighteen (U+FDFA), hence the second cut.
        text = unicodedata.normalize("NFKC", text)[:TEXT_MAX_CHARACTERS]
        text = _STACKED_MARKS.sub("", text).translate(_CURLY)
    elif not text.isprintable():
        text = _UNREADABLE.sub(" ", text)
    if "@" in text or "://" in text or "www." in text:
        text = _ADDRESSES.sub(" ", text)
    return text


def detect(text: str) -> str:
    """'en', 'ja', 'ko', 'zh', 'other', or 'none' where there is not one letter.

    ``text`` is prepared and without emoji and faces.
    """
    if text.isascii():
        return _latin(text) if _LATIN.search(text) else "none"
    letters = sum(map(str.isalpha, text))
    if not letters:
        return "none"
    kana, hangul, han = (len(script.findall(text)) for script in (_KANA, _HANGUL, _HAN))
    latin = len(_LATIN.findall(text))
    # A syllable or an ideograph says about as much as three Latin letters.
    dense = 3 * (kana + hangul + han)
    foreign = letters - kana - hangul - han - latin
    # Measured against the Latin letters, so that one borrowed word does not change the language.
    if dense >= latin and dense >= foreign and dense:
        if hangul > kana + han:
            return "ko"
        return "ja" if kana or _is_japanese_han(text) else "zh"
    if foreign > latin:
        return "other"
    return _latin(text)


def _is_japanese_han(text: str) -> bool:
    return bool(_JAPANESE_HAN.search(text)) or "".join(_HAN.findall(text)) in _BARE_JAPANESE


def _latin(text: str) -> str:
    words = _WORD.findall(text.lower())[:_STOP_WORD_MAX_WORDS]
    english = sum(map(_ENGLISH.__contains__, words))
    others = sum(map(_STRONG_OTHERS.__contains__, words))
    if others > english:
        return "other"
    if english or text.isascii() and len(words) < _ENGLISH_NEEDS_STOP_WORD_FROM_WORDS:
        return "en"
    # No stop word at all: long, or with accents in every other word, it is not English. One word
    # may be a name.
    accented = sum(not word.isascii() for word in words)
    if len(words) >= _ENGLISH_NEEDS_STOP_WORD_FROM_WORDS or len(words) > 1 and 2 * accented >= len(words):
        return "other"
    return "en"


_STRONG_OTHERS = _OTHERS - _WEAK - _ENGLISH
