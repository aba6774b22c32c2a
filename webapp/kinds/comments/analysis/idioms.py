"""Turns of phrase that mean something else than their words: slang, denials, wishes, marked sarcasm, adverts.

The table is our own, written from general knowledge of how people comment and tuned on no data. Each
entry is read as a sign, as an emoji is, and its words are taken out of the text. Irony without a mark
('what a masterpiece' under a bad video) is not recognised, here or anywhere in these analysers.
"""
import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from .emoji import Reading, Sign

# An idiom that is denied ('not mid', 'ain't fire') says less than its opposite.
DENIED_BY = -0.5

_WORK = ("songs?|tracks?|beats?|remix|riffs?|solo|bass|drop|tunes?|albums?|edits?|videos?|vids?|movies?|films?|shows?|"
         "games?|episodes?|content|channels?|takes?|opinions?|performance|vocals|verse|bars|moves?|trailers?")
_VERY = ("(?:so|really|literally|truly|absolutely|actually|pretty|super|totally|completely|straight|pure|just|kinda|"
         "hella)")
_IS = f"(?:is|are|was|were|be|it'?s|that'?s|he'?s|she'?s|they'?re|you'?re|ur)(?: a| an| some)?(?: {_VERY})*"
# The same, or what is left of it when 'not' or 'isn't' was read as a denial.
_BE = rf"(?:{_IS} |(?<=n't )|(?<=[a-z]nt )|(?<=not ))"
_END = r"(?=\s*(?:at all\b)?\s*(?:$|[.!?,;~]|lo+l|lmao|fr\b|ngl|bro\b|af\b|asf\b|tbh|imo))"
_CANNOT = "(?:can'?t|cannot|can not|couldn'?t|could not)"
_DOES_NOT = "(?:never|doesn'?t|does not|don'?t|didn'?t|did not|won'?t|hasn'?t|haven'?t)"

_GOODS = ("good great fun funny enjoyable amazing awesome excellent fantastic wonderful beautiful nice cool decent "
          "entertaining interesting hilarious brilliant perfect impressive watchable talented creative original cute "
          "lovely scary epic")
_BADS = "bad boring terrible awful horrible ugly annoying stupid dull weak wasted"
_GOOD = f"(?:{_GOODS.replace(' ', '|')})"
_BAD = f"(?:{_BADS.replace(' ', '|')})"
_LIKING = "(?:like|love|enjoy|appreciate)"
_IT = (r"(?:this|that|it|these|those|he|him|she|her|they|them|you|we|(?:the|your|his|her|their|my) \w+(?: \w+)?|"
       r"(?:this|that) (?!(?:twice|more|again|forever|too)\b|every)\w+)")
_NOBODY = r"(?:nobody|no ?one)"
_MORE_OR_LESS = r"(?:(?:a|an|as|so|such|much|more|way|far|lot|even|still|very|all|some|any|that|\w+ly) )*"
_NO_LONGER = r"(?!.{0,40}\b(?:still|always|now)\b)"

_DENIAL = rf"(?:not|isn'?t|wasn'?t|aren'?t|ain'?t|never|no|hardly) (?:{_VERY} |that |a )*"

# emotion, weight, words of which one must be there, and one of those after '&' (so that most comments cost
# nothing), pattern
_TABLE = (
    # Praise
    ("love", 0.8, "slaps slapped",
     rf"(?:this|that|it|still|always|{_VERY}|{_WORK}) (?:{_VERY} )?slap(?:s|ped)(?: (?:so )?(?:hard|different))?"),
    ("love", 0.8, "goated bussin banger bangers masterclass", r"goated|bussin|bangers?|masterclass"),
    ("love", 0.8, "goat", rf"(?:{_IS}|he|she|they|you) the(?: \w+)? goat{_END}|^(?:the )?goat{_END}"),
    ("love", 0.8, "fire",
     rf"(?<!there )(?:{_BE}|(?:{_WORK}) )fire{_END}|^(?:{_VERY} )?fire{_END}|{_VERY} fire{_END}"),
    ("love", 0.7, "lit", rf"{_BE}lit{_END}"),
    ("love", 0.7, "sick killer insane filthy nasty",
     rf"(?:sick|killer|insane) (?:{_WORK})|(?:filthy|nasty) (?:riffs?|solo|beat|bass|drop)"),
    ("love", 0.8, "ate crumbs",
     rf"(?:you|she|he|they|u|y'?all|queen) (?:{_VERY} )?ate(?: (?:it|that|this)(?: up)?)?{_END}|(?:ate and )?left no "
     r"crumbs"),
    ("love", 0.7, "slay slayed slaying",
     rf"(?:you|she|he|they|queen) slay(?:ed|ing|s)?{_END}|^slay(?:ed)?{_END}|slay queen"),
    ("love", 0.7, "cooked cook",
     rf"(?:you|he|she|they|bro) (?:{_VERY} )?cooked(?: (?:with|on) this(?: one)?)?{_END}|let (?:him|her|them|bro) "
     r"cook"),
    ("love", 0.7, "w dub",
     rf"^w (?:{_WORK}|man|mans|dad|mom|guy|stream|collab|speech|parents?)\b|(?:huge|massive|big|major|common|"
     rf"absolute|another|easy) (?:w|dub){_END}|w in the chat"),
    ("love", 0.7, "hits hit hitting goes went",
     r"(?:hits?|hitting) (?:so )?different(?:ly)?|(?:goes|went) (?:so |too )?hard"),
    ("love", 0.7, "peak cinema wine",
     rf"{_BE}peak{_END}|(?:absolute|pure) (?:peak|cinema)|peak (?:fiction|cinema|comedy|content)|aged like (?:a "
     r")?(?:fine )?wine"),
    ("love", 0.7, "based pog poggers", rf"^based{_END}|so based{_END}|pog(?:gers)?"),
    ("love", 0.8, "legend gem 10 better",
     rf"(?:absolute|total|hidden|what a) (?:legend|gem)|^(?:legend|gem){_END}|10+/10|(?:no ?one|nobody) does it "
     r"better"),
    ("love", 0.7, "underrated kiss money loop repeat",
     r"underrated|chef'?s kiss|(?:shut up and )?take my money|on (?:loop|repeat)"),
    ("love", 0.7, "deserves deserve",
     r"deserves? (?:so |way |a lot |much |many )*more (?:views|subs|subscribers|likes|attention|recognition|love|"
     r"credit)"),
    ("surprise", 0.7, "chills goosebumps",
     r"(?:gave|gives?|giving|got|getting|have) (?:me |us )?(?:the |literal |actual )?(?:chills|goosebumps)|"
     r"^(?:chills|goosebumps)|(?:chills|goosebumps) every (?:\w+ )?time"),
    ("disgust", -0.6, "0 1 better recommend",
     r"(?<!\d)[01]/10|could(?: have|'?ve| of) been (?:\w+ )?better|(?:would|do|can)(?:n'?t|not| not) recommend"),
    ("love", 0.8, "killed nailed crushed smashed", r"(?:killed|nailed|crushed|smashed) it(?! (?:with|by|for))"),
    ("joy", 0.8, "yeah yes yea", r"(?:fuck(?:ing)?|hell) (?:yeah?|yes)"),
    ("love", 0.5, "aged", rf"aged (?:{_VERY} |very )?well"),
    # Laughter
    ("amusement", 0.6, "dead deceased wheezing cackling weak howling",
     rf"i(?:'?m| am) (?:{_VERY} )?(?:dead|deceased|wheezing|cackling|weak|howling){_END}"),
    ("amusement", 0.7, "died dying laughing laughed",
     r"(?:died|dying|cried|crying|wheezing)(?: of| from)? (?:laughing|laughter)|(?<!never )laugh(?:ed|ing) (?:so|too) "
     r"(?:hard|much)|laughing my ass off"),
    # Badness denied, and what never wears out
    ("love", 0.4, "bad worst terrible awful horrible",
     r"(?:not|isn'?t|wasn'?t|ain'?t|aren'?t) (?:too |that |so |half |really |at all )*(?:a |the )?(?:bad|worst|"
     r"terrible|awful|horrible)(?! at (?!all))"),
    ("love", 0.8, "old tired bored boring",
     r"never (?:\w+ )?(?:get|gets|got|getting|gotten|grows?|be|am|is) (?:(?:old|boring)|(?:tired|bored|sick) of)"),
    ("love", 0.8, "stop",
     rf"{_CANNOT} (?:\w+ )?stop (?:listening|watching|replaying|playing|dancing|smiling|singing)"),
    ("amusement", 0.8, "laughing giggling", rf"{_CANNOT} (?:\w+ )?stop (?:laughing|giggling)"),
    ("joy", 0.7, "wait", rf"{_CANNOT} (?:\w+ )?wait(?! any)"),
    ("love", 0.7, "enough head better happier prouder more complain wrong beat",
     rf"{_CANNOT} (?:\w+ )?(?:get enough|get (?:it|this) out of my head|be (?:better|happier|prouder|beat)|agree "
     r"more|complain|go wrong|recommend \w+ enough|thank \w+ enough)"),
    ("love", 0.8, "disappoint disappoints disappointed fail fails miss misses",
     rf"(?:{_DOES_NOT}|not|wasn'?t|not been|hasn'?t) (?:\w+ )?(?:disappoint(?:s|ed)?|fails? to (?:amaze|impress|"
     r"deliver|entertain|make|crack|inspire)|miss(?:es)?(?=$|[.!]))"),
    ("love", 0.5, "complaints wrong hate none",
     r"no complaints|(?:nothing|not (?:a|one) thing) (?:is )?wrong with|(?:nothing|not (?:a|one) thing) (?:not )?to "
     r"(?:hate|dislike)|second to none"),
    ("love", 0.3, "hate mind dislike",
     r"(?:don'?t|didn'?t|doesn'?t|do not|did not|does not) (?:\w+ )?(?:hate|mind|dislike) (?:it|this|that|him|her|"
     r"them)"),
    ("love", 0.3, "not",
     r"(?:don'?t|didn'?t|isn'?t|wasn'?t|do not|is not) not (?:like|love|enjoy|good|great|fun|funny|nice)"),
    ("love", 0.7, "stop",
     r"(?:never|don'?t|do not) (?:ever )?stop (?:making|posting|uploading|creating|singing|doing|being)"),
    # Nothing is better
    ("love", 0.8, "better",
     rf"(?:{_CANNOT}|it (?:doesn'?t|does not)|(?:don'?t|do not) think (?:\w+ ){{1,3}}(?:can|could)) (?:\w+ )?(?:get|"
     rf"be)(?: any| much)? better(?: than (?:this|that))?|{_CANNOT} (?:have|'?ve|of) been (?:any )?better|(?:doesn'?t|"
     rf"does not) get(?: any| much)? better than|there(?:'?s| is| are| was) no better(?! way)|no better (?!way)\w+ "
     rf"than|{_NOBODY} \w+ (?:it )?better|nothing (?:\w+ )?better(?! (?:to do|will|ever))"),
    ("love", 0.8, "never think & better so more this as happier happy proud prouder laughed",
     r"(?:never|(?:don'?t|do not) think i(?:'?ve| have)?) (?:ever )?(?:seen|heard|had|met|read|watched|played|known|"
     r"felt|found|tasted) (?:(?!not|was|is|get)\w+ ){0,2}?"
     rf"(?:better|(?:so|more|this|as) (?:{_GOOD}|alive|happy|loved))|never (?:been (?:so |this )?(?:better|happier|"
     rf"happy|proud(?:er)?)|laughed (?:(?:so|this) (?:hard|much)|harder))"),
    ("love", 0.8, "nothing",
     r"nothing but (?:the )?(?:love|respect|praise|admiration|good|great|best|joy|happiness|smiles|positiv\w+|facts|"
     r"talent|perfection|quality)"),
    ("love", 0.7, f"{_BADS} skip & never not no zero",
     rf"(?:never|not) (?:a|one)(?: single)? (?:{_BAD} (?:moment|second|minute|song|video|episode|track|word|line)|"
     rf"skip)|(?:no|zero) {_BAD} (?:songs?|videos?|episodes?|moments?)"),
    ("love", 0.7, "beats beat tops top compares compare close comes like match happier smile & nothing nobody noone "
     "one",
     rf"(?:nothing|{_NOBODY}) (?:can |could |will |ever |even )*(?:beats?|tops?|match|compares?|comes? close|does it "
     rf"like|makes? me (?:happier|smile (?:more|like)))"),
    ("love", 0.4, "hate hates hated dislike dislikes",
     rf"{_NOBODY} (?:can |could |would |ever )*(?:hate|dislike)[sd]?(?: (?:this|that|it|you|him|her|them))?"),
    ("love", 0.7, "ask said put done topped beaten matched love praise say appreciate change & can cant cannot could "
     "couldnt wouldnt would",
     rf"{_CANNOT} (?:\w+ )?(?:ask for (?:more|better|anything)|(?:have |of )(?:said|put|done|asked|wished) (?:it |this "
     rf"|that |for )?"
     r"(?:\w+ )?(?:better|more)|be (?:topped|beaten|matched)|(?:love|praise|appreciate) \w+ (?:\w+ )?enough|say enough "
     r"(?:good|great|nice))|would(?:n'?t| not) change (?:a thing|anything)"),
    ("love", 0.7, "hard difficult impossible help & not but",
     rf"(?:(?:hard|difficult|impossible) (?:not to|to not)|{_CANNOT} help (?:it )?but) (?:{_LIKING}|smile|laugh|dance|"
     rf"sing|"
     r"cry|be (?:happy|impressed|amazed))"),
    ("love", 0.4, f"neither hardly barely scarcely far none anything & {_BADS}",
     rf"(?:hardly|barely|scarcely|far from|anything but|neither) (?:a )?{_BAD}(?: n?or (?:{_BAD}|\w+))?|none of "
     rf"(?:\w+) (?:is|are|was|were) {_BAD}"),
    # Better in the past
    ("sadness", -0.7, "used",
     rf"used to (?:be|sound|look|feel) {_MORE_OR_LESS}(?:{_GOOD}|better|(?:my|the) (?:best|"
     rf"favou?rite)){_NO_LONGER}"),
    ("sadness", -0.1, "used",
     rf"used to (?:really |actually )?{_LIKING} (?:(?:this|your|his|her) \w+|it|this|you|him|them|watching)"
     r"(?!.{0,40}\b(?:as a|when i|kid|child|still|always|now|back)\b)"),
    ("sadness", -0.7, f"once before until till then day days past first & better {_GOODS}",
     rf"(?:was|were) {_MORE_OR_LESS}(?:{_GOOD}|better) (?:once{_END}|(?<!than )before(?! (?:i|and|but)\b)|until (?:i|"
     rf"it|they|he|she|you|the)|till|back (?:then|in the days?)|in the past|at first){_NO_LONGER}"),
    ("sadness", -0.5, "old older original first previous earlier & better funnier more",
     r"(?:old|older|original|first|previous|earlier) (?!songs?|music)(?:\w+ ){0,2}?(?:was|were) (?:so |much |way |far |"
     r"a lot )*(?:better|funnier)|(?:liked|loved|preferred|enjoyed) (?:the|your) (?:old|original|first|previous|"
     r"earlier)\w*(?: \w+)? (?:better|more)"),
    ("sadness", -0.6, f"remember miss & {_GOODS}",
     rf"(?:remember|miss)(?: the (?:days?|times?))? when {_IT} (?:was|were|made|had) "
     rf"{_MORE_OR_LESS}{_GOOD}{_NO_LONGER}"),
    # Wished for, so not there
    ("sadness", -0.7, f"wish wished only & better {_GOODS}",
     rf"(?:wish(?:ed)?|if only) (?:that )?{_IT} (?:was|were|is|had|could be|could have been|would be|had been|made|had "
     rf"made) {_MORE_OR_LESS}(?:better|{_GOOD})(?! as (?:this|you|him|her|them|yours)\b)"),
    ("sadness", -0.7, "wish wanted",
     rf"(?:wish (?:i|we) could|(?:i|we) (?:really |so |just )*want(?:ed)? (?:so (?:badly|bad|much) )?to) (?:really "
     rf")?{_LIKING} {_IT}{_END}"),
    ("sadness", -0.6, f"been & better {_GOODS}",
     rf"(?:could|should|might)(?: have|'?ve| of) been {_MORE_OR_LESS}(?:better|{_GOOD})|would(?: have|'?ve| of) been "
     rf"{_MORE_OR_LESS}better"),
    ("sadness", -0.6, f"expected hoped & better {_GOODS}",
     rf"(?:i|we) (?:expected|hoped) (?:for |(?:it|this) (?:to|would|will) (?:be|have "
     rf"been) |something )*{_MORE_OR_LESS}(?:better|{_GOOD})"),
    ("sadness", -0.6, "better & without if", rf"(?:would|could|might) be {_MORE_OR_LESS}better (?:without|if)"),
    # Praise that somebody denies
    ("disgust", -0.7, f"call find consider say think believe & {_GOODS}",
     rf"(?:{_DOES_NOT}|{_CANNOT}|wouldn'?t|would not)(?<!can't)(?<!cant)(?: (?:even|ever|really|actually|honestly|"
     rf"\w+ly))* (?:call|find|consider|say|think|believe) (?:that )?(?!(?:it|this|that)s? (?:could|would|"
     rf"can)){_IT}(?:'?s|'?re)?(?: (?:is|are|was|were))? {_MORE_OR_LESS}{_GOOD}(?! enough)"),
    ("disgust", -0.7, f"call say find & {_GOODS}",
     rf"{_CANNOT} (?:\w+ly )?(?:call|say|find) (?:that )?{_IT}(?:'?s|'?re)?(?: (?:is|are|was|were))? "
     rf"{_MORE_OR_LESS}{_GOOD}|not what (?:i|you|anyone|people)(?:'?d| would)? call {_MORE_OR_LESS}{_GOOD}"),
    ("disgust", -0.7, f"see get understand doubt & {_GOODS}",
     rf"(?:{_DOES_NOT}|can'?t) (?:really |even )?(?:see|get|understand) (?:how|why|what)(?:'?s)? (?:is |so )*(?:{_IT} "
     rf"(?:is|was|are) )?(?:even |supposed to be |considered |that )*{_GOOD}|fail(?:ed)? to see (?:how|what|why) "
     rf"(?:\w+ ){{1,3}}?{_GOOD}|doubt (?:that )?{_IT}(?:'?s| is| was| will be| can be) {_MORE_OR_LESS}{_GOOD}"),
    ("disgust", -0.6, "hard difficult impossible tough easy & like love enjoy appreciate recommend seriously care",
     rf"(?:hard|difficult|impossible|tough|not easy) to (?:really )?(?:{_LIKING}|recommend|take (?:this )?seriously|"
     rf"care about)"),
    # Hardly any of it
    ("disgust", -0.7, f"neither hardly barely scarcely far anything nowhere remotely close nothing & {_GOODS}",
     rf"neither {_MORE_OR_LESS}{_GOOD}(?: n?or {_MORE_OR_LESS}\w+)?|(?:hardly|barely|scarcely|far from|anything but|"
     rf"nowhere near|not (?:even )?(?:remotely|close to)) (?:being )?{_MORE_OR_LESS}{_GOOD}|nothing (?:\w+ly )?{_GOOD} "
     rf"(?:about|here|in|to)"),
    ("disgust", -0.6, "talent fun skill skills charm taste humor humour quality substance originality creativity "
     "soul chemistry effort & "
     "zero 0 no without lack lacks lacking",
     r"(?:zero|0|no|without(?: any)?|lacks?(?: any| in)?|lacking(?: any| in)?|absolutely no) (?:talent|fun|skills?|"
     r"charm|taste|humou?r|quality|substance|originality|creativity|soul|chemistry)(?: at all)?|(?<!with )zero effort"),
    ("disgust", -0.7, f"nobody noone no none few & like likes liked love loves loved enjoy enjoys enjoyed appreciate "
     f"appreciates appreciated {_GOODS}",
     rf"(?:{_NOBODY}|few(?: people)?) (?:here |will |would |could |can |really |even |ever |actually "
     rf")*(?:{_LIKING}[sd]?|enjoyed|finds? {_IT} {_GOOD})(?! me\b|.{{0,25}}\b(?:more|like|as much|better|best)\b)|none of "
     rf"(?:this|it|that|them|these|those|the \w+) (?:is|are|was|were) {_MORE_OR_LESS}{_GOOD}"),
    # Contempt
    ("disgust", -0.8, "mid",
     rf"{_BE}(?:so |very )*mid{_END}|^(?:{_VERY} )?mid{_END}|mid (?:{_WORK}|af|asf|at best)\b"),
    ("disgust", -0.8, "trash garbage dogshit dogwater ass",
     rf"{_BE}(?:absolute |utter |complete |total |hot |dog )*(?:trash|garbage|ass|dogshit|dogwater){_END}|"
     rf"(?:absolute|utter|complete|total|hot|straight|pure) (?:trash|garbage|dogshit)|^(?:trash|garbage){_END}|"
     rf"(?:trash|garbage) (?:{_WORK})"),
    ("disgust", -0.7, "cringe cringy cringey", r"(?:so |very )?cring(?:e|y|ey)"),
    ("anger", -0.7, "l ratio ratioed",
     rf"^(?:huge |massive )?l (?:{_WORK}|man|mans|move|guy|parents?)\b|(?:huge|massive|big|fat|major|common|another) "
     rf"l{_END}|(?:take|hold|holding|took) (?:the|this|that|an|your) l\b|\+ ?ratio|^(?:l )?ratio{_END}|^l$|ratioed"),
    ("disgust", -0.7, "ears",
     r"(?:rip|r\.i\.p\.?) (?:to )?my (?:poor )?ears|my (?:poor )?ears (?:are |is )?bleed(?:ing)?|(?:hurts?|hurting|"
     r"killing|destroyed) my (?:poor )?ears|ma(?:kes?|de) my ears bleed"),
    ("anger", -0.7, "waste wasted",
     r"(?:complete |total |such a |what a )?waste of (?:my )?(?:time|money|life|space)|wasted \w+ (?:minutes|"
     r"seconds|hours?|time)|wasted my (?:time|life|money)"),
    ("disgust", -0.6, "joke tea", r"what a joke|(?:not|isn'?t) (?:\w+ )?my cup of tea"),
    ("anger", -0.6, "clickbait grab unsubscribed unsubscribing unsubbed overrated flopped yikes",
     r"clickbait|(?:cash|money) grab|unsub(?:scrib)?(?:b?ed|ing)|(?<!not )overrated|flopped|(?:big )?yikes"),
    ("disgust", -0.6, "fell milk snoozefest ick",
     rf"(?:you|he|she|they|bro|channel|really) (?:{_VERY} )?fell off{_END}|aged like milk|snoozefest|gives? me the "
     r"ick"),
    ("anger", -0.6, "asked grass cap capping",
     rf"(?:nobody|no one|who) (?:\w+ )?asked{_END}|touch (?:some )?grass|(?:that'?s|this is|such|all) cap{_END}|stop "
     r"(?:the )?capp?ing"),
    ("fear", -0.6, "cooked", rf"(?:we|i|they)(?:'?re|'?m| are| am) (?:{_VERY} )?cooked{_END}"),
    # Sarcasm that is marked as such
    ("anger", -1.0, "s", r"(?<!\S)/s\s*$"),
    ("anger", -0.8, "thanks nothing clap", r"(?:thanks|thank you|thx) for nothing|\*?slow claps?\*?"),
    ("anger", -0.7, "right jan", r"(?:oh |ye?a?h? )*yeah,? (?:sure,? )?right(?=\s*(?:$|[.!,]))|sure,? jan"),
    ("anger", -0.9, "another",
     r"(?:oh |wow )?(?:great|wonderful|lovely|perfect|fantastic|brilliant|awesome|nice|yay|amazing),?\.* (?:just "
     r"what (?:we|i) needed,? )?(?:yet )?another (?:\w+ )?(?:ads?|adverts?|advertisements?|commercials?|sponsor\w*|"
     r"paywalls?|subscriptions?|delays?|bugs?|crash|reboot|remake)"),
    ("anger", -0.7, '"',
     r'"(?:great|good|best|genius|experts?|funny|comedy|comedian|music|talent(?:ed)?|art|artist|singer|'
     r'journalis[mt]s?|news|science|facts?|quality|help(?:ful)?|smart|professionals?|improve(?:d|ments?)?|fixed|'
     r'fun)"'),
    # Says nothing about the video, and its words would be misread
    ("neutral", 0.0, "cap joke lie lies", r"no cap|no joke|not (?:gonna|going to) lie|no lies?"),
)
# Words of which one must be there, pattern
_ADVERTS = (
    ("sub sub4sub", r"sub ?(?:4|for) ?sub"),
    ("whatsapp whats telegram", r"(?:on|via|through|my|me) (?:whats ?app|telegram)|(?:whats ?app|telegram)\W*[+@\d]+"),
    # In capitals: a code of a discount, not of a program.
    ("promo promocode code", r"promo ?code|(?:use|with) (?:my )?code (?-i:[A-Z0-9]{3,})"),
    ("channel video videos song songs music page profile instagram insta tiktok cover mixtape site website",
     r"(?:check ?out|visit|watch|see|subscribe to|sub to|follow|support) my (?:new |own |latest |youtube )?"
     r"(?:channel|videos?|songs?|music|page|profile|instagram|insta|tiktok|cover|mixtape|site|website)"),
    ("bio profile dm", r"link in (?:my )?(?:bio|profile)|dm me (?:for|to)"),
    ("off", r"\d+% off"),
    ("robux vbucks bucks gift giftcard giftcards", r"free (?:v-?bucks|robux|gift ?cards?)"),
    ("invest invested investing trade traded trading", r"(?:invest|trad)(?:e|ed|ing)? with (?:mr|mrs|ms|miss|expert)"),
)

# These are signs, not words: they stand beside anything and cannot be denied.
_BARE = frozenset(("s", '"'))

# Said of what is bad, and among friends of what is very good: an approving emoji decides.
APPROVING_FROM = 1.0
_AMONG_FRIENDS = re.compile(r"\b(?:sick|insane|crazy|mad|wicked|killer|killing|killed|deadly|dope|nasty|filthy|savage|"
                            r"fire|beast|brutal|ridiculous|stupid|disgusting|criminal|damn|bad ?ass|hard)\b"
                            r"(?! (?:of|at|to)\b)", re.IGNORECASE)


def read(text: str, words: Iterable[str], is_approved: bool) -> Reading:
    """The idioms of a prepared English text, taken out of it, and what each of them says.

    ``words``: its tokens, in lower case. ``is_approved``: the emoji that stood beside the text all
    approve, so that its slang is praise.
    """
    signs: list[Sign] = []
    words = frozenset(words)
    if is_approved:
        text = _AMONG_FRIENDS.sub(" ", text)
    called = {id(idiom): idiom for word in sorted(_idioms().keys() & words) for idiom in _idioms()[word]}
    lower = text.lower()
    for idiom in called.values():
        if not (idiom.beside and idiom.beside.isdisjoint(words)) and idiom.in_lower_case.search(lower):
            text = idiom.pattern.sub(lambda match: _taken(match, idiom.sign, signs), text)
            lower = text.lower()
    return Reading(text, signs)


def is_advert(text: str, words: Iterable[str]) -> bool:
    """True for what asks to look elsewhere or sells: 'check out my channel', 'sub4sub', 'use code X'."""
    adverts = _adverts()
    return any(adverts[word].search(text) for word in adverts.keys() & words)


def knows(word: str) -> bool:
    """True for a word, in lower case, that calls for an idiom or an advert."""
    return word in _idioms() or word in _adverts()


class _Idiom(NamedTuple):
    pattern: re.Pattern[str]
    # The same in half the time: most comments hold no idiom.
    in_lower_case: re.Pattern[str]
    sign: Sign
    beside: frozenset[str]


def _taken(match: re.Match[str], sign: Sign, signs: list[Sign]) -> str:
    emotion, weight = sign
    if match.groupdict().get("denied"):
        emotion, weight = "neutral", weight * DENIED_BY
    signs.append((emotion, weight))
    return " "


@cache
def _idioms() -> dict[str, list[_Idiom]]:
    """The idioms by each word that calls for them."""
    found: dict[str, list[_Idiom]] = {}
    for emotion, weight, words, pattern in _TABLE:
        if words not in _BARE:
            pattern = rf"(?<![\w'])(?P<denied>{_DENIAL})?(?:{pattern})(?: at all)?(?![\w'])"
        calling, _, beside = words.partition(" & ")
        idiom = _Idiom(re.compile(pattern, re.IGNORECASE), re.compile(pattern), (emotion, weight),
                       frozenset(beside.split()))
        for word in calling.split():
            found.setdefault(word, []).append(idiom)
    return found


@cache
def _adverts() -> dict[str, re.Pattern[str]]:
    """The adverts' patterns by each word that calls for one."""
    return {word: re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)
            for words, pattern in _ADVERTS for word in words.split()}
