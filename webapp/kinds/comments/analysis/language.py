"""Which language a comment is in, by script and by stop words; and the text made safe to read.

Rule: kana means Japanese, hangul Korean, han alone Chinese unless its characters or words are Japan's; any
other script but Latin is 'other'. Latin is what its stop words say; without one it is English only where a word
is known or built as English is, or all are signs, slang or names: a language nobody listed is not English either.
Of two scripts the weightier counts; names in Latin letters weigh nothing. 'none' is a text without words.
"""
import re
import unicodedata

from . import english

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
                           "渋獣総聴転伝徳拝髪抜仏辺満黙訳薬謡頼覧隷齢労録徴鋭鉄続"
                           "亜隠栄縁穏絵拡覚渇寛帰戯犠拠挙暁駆勲薫掲渓継蛍軽鶏芸撃倹剣検顕厳斎桟賛歯釈粛粋酔髄瀬摂銭捜挿"
                           "巣騒増臓蔵鋳庁稲闘縄悩脳覇舗弥揺欄両猟隣塁霊歴錬説絶匂枠辻凪榊栃笹雫麿腺嘘躾姉頬掴噛戻]")
# Written in China only, simplified or traditional.
_CHINESE_HAN = re.compile("[你您她們们這这个很嗎吗呢吧啊哦喔啦听聽沒没還还么麼說说怎哪谁呀啥让讓给給对對欢歡來爱谢经频视动语话读"
                          "认识请论许设试诗词该详误课调谈负财贵费资赛车轮软辑边过运进远连迟适选钱铁银错长门问间闻队阳阴难页顶"
                          "项顺须领颜题风飞饭饮马验鱼鸟鸡龙发无为东严丽义乐书买云产亲亿从优传伤伟學會國體聲點當樂氣廣發變讀賣實寫與應"
                          "戰戲戀歲歸畫醫鐵關雙雜靈顯圖團圓壓壞處傳價惡]")
# Japan reduced the first as the mainland did and kept the second as Taiwan did: together they are Japanese.
_REDUCED = re.compile("[点国会学体声当来医写号旧数画区万担党独虫昼麦乱礼寿双争将]")
_WHOLE = re.compile("[億場動時間語話見車東門風長馬鳥魚電飛員問紙記計訪詐誰議論護財質買費貸貧資賞軍農運過達違遠選郵銀開閉難霧順頭題"
                    "額飯館線紅結給組終練編緑純約級紀絡締績習聞職務務勝勢園執堅報壇夢嘆優億備傷側偽倉個倫偉債僕条極構標権樹橋]")
# Comments of these words alone, in characters that Chinese has too, are a Japanese viewer's.
_BARE_JAPANESE = re.compile("(?:最高|最強|最悪|最低|神回|神曲|神作|神編集|神企画|神動画|神|名曲|良曲|優勝|鳥肌|爆笑|号泣|素敵|綺麗|尊|圧巻|感謝|流石|可愛|"
                            "可哀想|天才|天才的|感動|完璧|完全|無理|待機|共感|納得|応援|日本|日本一|世界一|今回|毎回|本当|普通|新曲|原曲|推|過|大草原|草|"
                            "不可避|老害|詐欺|胸熱|胸糞|無念|不潔|絶景|歌詞|歌唱力|音小|何年前|待望|泣|笑|乙|初見|保存用|意味不明|理解不能|次回予告|予告|"
                            "予想外|想定外|予想以上|想像以上|期待|期待外|期待以上|微妙|残念|退屈|面倒|迷惑|邪魔|害悪|有能|無能|優秀|傑作|名作|良作|駄作|凡作|祝|勝利|満点|癒|懐|"
                            "美人|美声|美味|大正解|大満足|衝撃|恐怖|不気味|不快|不安|心配|無駄|卑怯|外道|鬼畜|狂気|悲報|朗報|羨|懐古|釘付|脱帽|合掌|"
                            "黙祷|冥福|同感|同意|激|超|大|中毒|中毒性|抜群|上手|下手|音量|画質|音質|高画質|高音質)+")
_BARE_MAX_CHARACTERS = 12

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
# Words of those languages' short comments that English seems to know, or to be about to slip into.
_OTHERS_ALONE = frozenset(
    "genial brutal gut toll tolle toller tolles krass geil geile geiler geiles klasse prima spitze hammer stimme schade "
    "mal perfecto mas nul nulle bof chapeau bonne voix belle increible incrivel fantastico musica musik komik parah "
    "mantap mast dil gaana sensacional espectacular interesante crack maestro divino puro pura fea feo malo mala nada "
    "amor arte vida jefe lindo linda bella bello brava bravi voce epico enorme grande".split())
# Of English and of the others: by themselves no evidence of either.
_SHARED = frozenset("top super mega total final epic original normal real musical bravo genre horrible terrible adorable "
                    "formidable sublime video videos canal clip idol talent opera piano radio hotel album single "
                    "drama festival plus fan fans star cover live studio bro".split())
# What viewers write that neither weights nor idioms have, and the names they write most.
_SLANG = frozenset(
    "lol lmfao rofl rotfl omfg wtf wth smh tbh imo imho ngl fyi ikr idk idc iykyk wdym brb tysm thx thnx tnx luv plz "
    "pls hbd gg ggs ggwp gj rip mvp npc fomo yolo sus simp simps stan stans ayo ayyo bruh bro bros brah sheesh "
    "poggers pogchamp kekw copium hopium yeet yeeted oof welp meh dang dayum woah whoa hiya huzzah woohoo woot yay yayy "
    "yippee yas yass yessir nope yep yup nah eww ew ugh argh phew oops sup wassup howdy heya aloha skibidi rizz rizzler "
    "sigma gyatt gyat fanum ohio deadass lowkey highkey finna tryna gigachad chad stonks drip vibe vibes vibing bop fr "
    "asf yo yoo homie fam dope dank noob noobs nerf nerfed jumpscare meme memes blimey crikey bollocks innit congrats "
    "congratz grats letsgo lessgo iconic nostalgia nostalgic tutorial tutorials playlist remix lyrics sellout scammer "
    "earworm cliffhanger relatable wholesome demonetized roblox minecraft fortnite pokemon mrbeast pewdiepie drake eminem "
    "kawaii sugoi baka senpai waifu otaku kanye beyonce rihanna adele "
    "messi ronaldo neymar lebron shrek naruto goku zelda mario gta".split())
# As names are written: MrBeast, iPhone, NASA; Taylor Swift.
_NAME = re.compile("[A-Za-z]*[a-z][A-Z][A-Za-z]*|[A-Z]{2,4}s?")
_CAPITALISED = re.compile("[A-Z][a-z']+")
# As other languages end their words, and English hardly any.
_FOREIGN_END = re.compile(
    ".{2,}(?:[aeiou]nte|[ai]d[oa]s?|[oe]s[oa]s?|issim[oaie]|[ai]bile|ista|mente|eux|euse|eur|ique|lich|isch|igen?|ung|heit|"
    "keit|lar|ler|yor|nya|agem|inh[oa]|it[oa]|a[zc]o)")


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
    # The stroke that lengthens a kana is no letter by itself.
    letters = sum(map(str.isalpha, text)) - text.count("ー")
    if letters <= 0:
        return "none"
    kana, hangul, han = (len(script.findall(text)) for script in (_KANA, _HANGUL, _HAN))
    latin = len(_LATIN.findall(text))
    foreign = letters - kana - hangul - han - latin
    # Names and brands in Latin letters (Nintendo Switch 届いた) are no other language.
    named = not latin or _latin_sides(text) == (0, 0)
    japanese = bool(kana) or han > foreign and named and _is_japanese_han(text)
    # A syllable or an ideograph says about as much as three Latin letters.
    dense = 3 * (kana + hangul + han)
    if dense >= max(foreign, 1) and (dense >= latin or japanese and named):
        if hangul > kana + han:
            return "ko"
        if japanese:
            return "ja"
        # Two ideographs within English (I love 日本) are no Chinese.
        if han > foreign and (named or dense >= 3 * latin):
            return "zh"
    if foreign > latin:
        return "other"
    return _latin(text)


def _is_japanese_han(text: str) -> bool:
    if _JAPANESE_HAN.search(text):
        return True
    if _CHINESE_HAN.search(text):
        return False
    if _REDUCED.search(text) and _WHOLE.search(text):
        return True
    han = "".join(_HAN.findall(text[:4 * _BARE_MAX_CHARACTERS]))
    return len(han) <= _BARE_MAX_CHARACTERS and bool(_BARE_JAPANESE.fullmatch(han))


def _latin_sides(text: str) -> tuple[int, int]:
    """How many stop words of English and of other languages there are."""
    words = _WORD.findall(text.lower())[:_STOP_WORD_MAX_WORDS]
    return sum(map(_ENGLISH.__contains__, words)), sum(map(_STRONG_OTHERS.__contains__, words))


def _latin(text: str) -> str:
    english_words, others = _latin_sides(text)
    if others > english_words:
        return "other"
    if english_words:
        return "en"
    words = _WORD.findall(text)[:_STOP_WORD_MAX_WORDS]
    return "en" if len(words) < _ENGLISH_NEEDS_STOP_WORD_FROM_WORDS and _is_english(words) else "other"


def _is_english(words: list[str]) -> bool:
    """Whether a few words without a stop word of English are English all the same."""
    plain = [english.unstretched(english.plain(word)) for word in words]
    known = [bare in _SLANG or english.knows(bare) for bare in plain]
    foreign = sum(bare in _OTHERS_ALONE or not (is_known or word.isascii() and not _FOREIGN_END.fullmatch(bare))
                  for word, bare, is_known in zip(words, plain, known))
    ours = sum(is_known and len(bare) > 2 and bare not in _NO_PROOF for bare, is_known in zip(plain, known))
    if ours or foreign or all(known):
        return ours > foreign or not foreign
    return (all(len(bare) <= 3 or bool(_NAME.fullmatch(word)) or bool(english.THREE_ALIKE.search(word))
                or english.resembles(bare) for word, bare in zip(words, plain))
            or len(words) > 1 and all(map(_CAPITALISED.fullmatch, words)))


_STRONG_OTHERS = _OTHERS - _WEAK - _ENGLISH
_NO_PROOF = _OTHERS_ALONE | _SHARED
