"""The small words: names, pronouns, owners, numbers, places and times."""

from __future__ import annotations

from dataclasses import dataclass, field

from nmtlib.toy.lexicon import rows
from nmtlib.toy.meaning import Item, Phrase

# Who speaks, who is spoken to and who is spoken of; "sg"/"pl" and the person decide the form of the
# verb. concept | German nominative accusative dative | English subject object | Mandarin | person
_PRONOUNS = """
I    | ich mich mir | I me     | 我   | 1sg
you  | du dich dir  | you you  | 你   | 2sg
he   | er ihn ihm   | he him   | 他   | 3sg
she  | sie sie ihr  | she her  | 她   | 3sg
we   | wir uns uns  | we us    | 我们 | 1pl
they | sie sie ihnen | they them | 他们 | 3pl
who  | wer wen wem  | who who  | 谁   | 3sg
what | was was was  | what what | 什么 | 3sg
"""

# name | Mandarin | the pronoun for it
_NAMES = """
Anna  | 安娜   | she
Maria | 玛丽亚 | she
Julia | 朱莉娅 | she
Peter | 彼得   | he
Tom   | 汤姆   | he
Paul  | 保罗   | he
"""

# concept | German stem | Mandarin.  "their" is left out: German "ihr" would mean two things.
_OWNERS = """
my   | mein  | 我
your | dein  | 你
his  | sein  | 他
her  | ihr   | 她
our  | unser | 我们
"""

# concept | German | Mandarin ("many" takes no measure word)
_NUMBERS = """
two   | zwei  | 两
three | drei  | 三
four  | vier  | 四
many  | viele | 很多
"""

# place | German: where, where to | English: where, where to | Mandarin, after 在
_PLACES = """
park          | im Park, in den Park               | in the park, to the park               | 公园 里
garden        | im Garten                          | in the garden                          | 花园 里
kitchen       | in der Küche                       | in the kitchen                         | 厨房 里
office        | im Büro, ins Büro                  | in the office, to the office           | 办公室 里
school        | in der Schule, in die Schule       | at school, to school                   | 学校 里
library       | in der Bibliothek, in die Bibliothek | in the library, to the library       | 图书馆 里
restaurant    | im Restaurant, ins Restaurant      | in the restaurant, to the restaurant   | 餐厅 里
supermarket   | im Supermarkt, in den Supermarkt   | in the supermarket, to the supermarket | 超市 里
market        | auf dem Markt, auf den Markt       | at the market, to the market           | 市场 里
hospital      | im Krankenhaus, ins Krankenhaus    | in the hospital, to the hospital       | 医院 里
station       | am Bahnhof, zum Bahnhof            | at the station, to the station         | 火车站
lake          | im See                             | in the lake                            | 湖 里
home          | zu Hause                           | at home                                | 家 里
on_table      | auf dem Tisch                      | on the table                           | 桌子 上
under_table   | unter dem Tisch                    | under the table                        | 桌子 下面
on_chair      | auf dem Stuhl                      | on the chair                           | 椅子 上
under_chair   | unter dem Stuhl                    | under the chair                        | 椅子 下面
under_tree    | unter dem Baum                     | under the tree                         | 树 下面
behind_house  | hinter dem Haus                    | behind the house                       | 房子 后面
before_house  | vor dem Haus                       | in front of the house                  | 房子 前面
next_to_house | neben dem Haus                     | next to the house                      | 房子 旁边
before_door   | vor der Tür                        | in front of the door                   | 门 前面
"""

# time | German | English | Mandarin; the digits say which words mean the same
_TIMES = """
yesterday     | gestern         | yesterday         | 昨天
last_week     | letzte/1 Woche/2 | last/1 week/2    | 上周/12
this_morning  | heute/1 Morgen/2 | this/1 morning/2 | 今天/1 早上/2
monday        | am/1 Montag/2   | on/1 Monday/2     | 星期一/2
today         | heute           | today             | 今天
tomorrow      | morgen          | tomorrow          | 明天
this_evening  | heute/1 Abend/2 | this/1 evening/2  | 今天/1 晚上/2
next_week     | nächste/1 Woche/2 | next/1 week/2   | 下周/12
every_day     | jeden/1 Tag/2   | every/1 day/2     | 每天/12
every_morning | jeden/1 Morgen/2 | every/1 morning/2 | 每天/1 早上/2
every_week    | jede/1 Woche/2  | every/1 week/2    | 每周/12
often         | oft             | often             | 常常
sometimes     | manchmal        | sometimes         | 有时候
never         | nie             | never             | 从不
"""

RELATION, GROUND, THE = "place.relation", "place.noun", "place.the"
OFTEN = frozenset({"often", "sometimes", "never"})


@dataclass(frozen=True, slots=True)
class Pronoun:
    """German cases (nominative, accusative, dative), English subject and object, Mandarin, and the
    person.
    """

    german: tuple[str, ...]
    english: tuple[str, ...]
    mandarin: str
    person: str


@dataclass(frozen=True, slots=True)
class Adverbial:
    """A place or a time as items; `german_to` and `english_to` say where to, and may be empty."""

    german: list[Item]
    english: list[Item]
    mandarin: list[Item]
    german_to: list[Item] = field(default_factory=list)
    english_to: list[Item] = field(default_factory=list)


def _european(phrase: str) -> list[Item]:
    """Items of "im Park" or "in the park": the noun is last, contractions hold preposition and
    article.
    """
    *first, noun = phrase.split()
    keys = {"the": (THE,), "dem": (THE,), "den": (THE,), "der": (THE,), "die": (THE,)}
    keys |= {word: (RELATION, THE) for word in ("im", "am", "zum", "ins")}
    return [*((word, keys.get(word, (RELATION,))) for word in first), (noun, (GROUND,))]


def _place(german: str, english: str, mandarin: str) -> Adverbial:
    german_where, *german_to = map(_european, german.split(", "))
    english_where, *english_to = map(_european, english.split(", "))
    noun, *particle = mandarin.split()
    chinese = [(noun, (GROUND,)), *((word, (RELATION,)) for word in particle)]
    return Adverbial(german_where, english_where, chinese, *german_to, *english_to)


def _marked(phrase: str) -> list[Item]:
    """Items of "jeden/1 Tag/2": each digit is a part of the time that words of other languages may
    share.
    """
    split = (word.partition("/") for word in phrase.split())
    return [(word, tuple(f"time{digit}" for digit in digits or "0")) for word, _, digits in split]


PRONOUNS = {
    concept: Pronoun(tuple(german.split()), tuple(english.split()), mandarin, person)
    for concept, german, english, mandarin, person in rows(_PRONOUNS)
}
NAMES = {name: (mandarin, pronoun) for name, mandarin, pronoun in rows(_NAMES)}
OWNERS = {concept: (german, mandarin) for concept, german, mandarin in rows(_OWNERS)}
NUMBERS = {concept: (german, mandarin) for concept, german, mandarin in rows(_NUMBERS)}
PLACES = {concept: _place(*cells) for concept, *cells in rows(_PLACES)}
PLACES["where"] = Adverbial(
    *([(word, (RELATION, GROUND))] for word in ("wo", "where", "哪里", "wohin", "where"))
)
TIMES = {concept: Adverbial(*map(_marked, cells)) for concept, *cells in rows(_TIMES)}


def person(subject: Phrase) -> str:
    """The person and number that the verb agrees with, such as "3sg"."""
    if subject.noun in PRONOUNS:
        return PRONOUNS[subject.noun].person
    return "3pl" if subject.plural else "3sg"
