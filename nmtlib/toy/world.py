"""What makes sense: who does what to what, where things are, and why people do not go to work.

The cells name groups of the lexicon ("pet", "food") or single concepts ("milk").
"""

from __future__ import annotations

from dataclasses import dataclass

from nmtlib.toy.closed_class import NAMES
from nmtlib.toy.lexicon import NOUNS, rows

# How a verb may be used.
USES = {
    "activity": ("now", "past", "will", "modal", "daily", "like"),
    "habit": ("past", "will", "modal", "daily", "like"),
    "action": ("now", "past", "will", "modal"),
    "result": ("past", "will", "modal"),
    "play": ("now", "will", "modal", "daily", "like"),
    "animal": ("now", "past", "will", "daily", "like"),
    "search": ("now", "will", "modal"),
    "feeling": ("now", "past"),
    "sight": ("past",),
    "skill": ("state", "modal"),
    "state": ("state",),
}

# verb | subject | object | places | use.  The place is where to for "go"; an object "someone" is
# any person.
_FRAMES = """
sleep    | someone  |               | home garden                                        | activity
sleep    | pet      |               | kitchen under_table on_chair under_tree before_door before_house | animal
run      | someone  |               | park                                               | activity
swim     | someone  |               | lake                                               | activity
work     | grown    |               | office school hospital library restaurant home garden | activity
play     | young    |               | garden park kitchen behind_house under_tree        | play
play     | pet      |               | garden park behind_house next_to_house             | play
football | someone  |               | park garden school behind_house                    | activity
dance    | someone  |               | kitchen garden restaurant park                     | activity
sing     | someone  |               | kitchen garden park school                         | activity
laugh    | someone  |               |                                                    | feeling
cry      | someone  |               |                                                    | feeling
shop     | grown    |               | supermarket market                                 | activity
watch_tv | someone  |               | home kitchen                                       | activity
go       | someone  |               | park school library restaurant hospital station market | habit
go       | grown    |               | office supermarket                                 | habit
eat      | someone  | snack cake food soup | kitchen garden restaurant home office park school | activity
eat      | pet      | meat fish     | kitchen garden under_table                         | animal
drink    | someone  | drink         | kitchen garden restaurant home office              | activity
drink    | cat      | water milk    | kitchen garden                                     | animal
buy      | grown    | snack cake food milk flower newspaper | supermarket market         | activity
buy      | grown    | clothes thing book | market                                        | result
buy      | grown    | vehicle furniture house computer horse dog |                       | result
sell     | grown    | vehicle furniture house computer horse cow |                       | result
sell     | grown    | snack flower bread    | market                                     | action
read     | someone  | text          | park garden library home kitchen                   | activity
write    | someone  | letter book   | library home office                                | action
see      | someone  | animal        | park garden behind_house                           | sight
see      | someone  | someone       | park station market                                | sight
find     | someone  | thing hat letter | park garden office kitchen                      | result
find     | someone  | pet           | park garden                                        | result
look_for | someone  | thing hat book letter | kitchen office                             | search
look_for | someone  | pet           | garden park                                        | search
repair   | grown    | vehicle furniture watch computer | garden home                     | action
wash     | grown    | vehicle       | before_house                                       | action
wash     | grown    | clothes       | home                                               | action
wash     | someone  | dog horse     | garden                                             | action
open     | someone  | opening bag   |                                                    | result
close    | someone  | opening       |                                                    | result
bake     | someone  | cake bread    | kitchen home                                       | activity
cook     | someone  | soup rice fish meat egg | kitchen home                             | activity
learn    | someone  | language      | school library home                                | activity
speak    | someone  | language      |                                                    | skill
help     | someone  | someone       | garden kitchen                                     | activity
visit    | someone  | someone       |                                                    | habit
call     | someone  | someone       |                                                    | activity
fetch    | grown    | minor         | school station                                     | habit
give     | someone  | snack text flower key photo |                                      | result
show     | someone  | text photo watch thing |                                           | result
have     | someone  | pet vehicle thing computer house horse text time money |           | state
like     | someone  | animal snack drink flower book film |                   | state
know     | someone  | someone       |                                                    | state
need     | someone  | clothes thing computer vehicle money time |                   | state
"""

# adjective | nouns that it may stand before
_BEFORE = """
big         | pet horse house table bag cake car flower
small       | pet bird house table bag car
new         | vehicle clothes house computer watch table teacher neighbour
old         | adult
old_animal  | pet horse
old_thing   | vehicle clothes house computer table chair newspaper photo
red         | vehicle dress coat hat bag chair flower
black       | pet horse bird car clothes bag
white       | pet horse bird car clothes flower house
beautiful   | woman horse bird flower dress house watch photo
cheap       | vehicle clothes bag watch computer
expensive   | vehicle clothes bag watch house
young       | adult
clever      | young dog
interesting | text film
good        | book film teacher doctor
hot         | coffee tea soup
cold        | coffee milk water soup
fresh       | bread fish milk meat egg
"""

# adjective | nouns that it may be said of
_SAID = """
big         | pet horse house table bag car
tall        | boy girl man woman kin name
small       | pet bird house bag
new         | vehicle clothes computer watch
old_thing   | vehicle house computer chair coat
beautiful   | horse flower dress house watch
cheap       | vehicle clothes bag watch computer
expensive   | vehicle clothes bag watch house
heavy       | bag table computer chair
young       | teacher doctor neighbour mother father
clever      | young dog kin name
interesting | text film
hot         | coffee tea milk soup
cold        | coffee tea milk soup
fresh       | bread fish milk meat
"""

# adjective | groups whose members compare
_COMPARED = """
big         | dog cat horse cow ; house ; table ; car ; bag
tall        | person
small       | dog cat bird ; house ; bag
new         | vehicle ; computer
old_thing   | vehicle ; house ; computer
beautiful   | dress coat ; horse ; house ; watch
cheap       | vehicle ; clothes ; watch bag
expensive   | vehicle ; clothes ; watch computer
heavy       | bag computer ; table chair
young       | adult name
clever      | young name ; pet
interesting | book film newspaper
"""

# what may be | where
_WHEREABOUTS = """
text thing hat photo             | on_table under_table on_chair
snack                            | on_table kitchen
clothes                          | on_chair
furniture                        | kitchen garden
thing hat book                   | kitchen office under_chair
pet                              | garden kitchen under_table under_tree before_door behind_house
bird horse                       | garden behind_house under_tree before_house
vehicle                          | before_house behind_house next_to_house
someone                          | park garden kitchen school station library supermarket restaurant
doctor teacher neighbour kin     | office hospital market
"""

# verbs | aspects of what is done | what is true of the doer
_REASONS = """
sleep                                  | now want         | tired
eat                                    | now want         | hungry
drink                                  | now want         | thirsty
sing dance laugh                       | now              | happy
cry                                    | now              | sad
work run swim dance football cook      | not-can not-want not-will | tired sick
shop go bake learn visit               | not-can not-want not-will | tired sick no_time
"""

# What is special about a verb: "company" it may be done with somebody, "gift" somebody gets the
# object, "weeks" it suits last or next week, "counted" takes two or many objects, "new" takes a
# book but not the book, "known" the other way round, "placed" needs its place, "not owned" takes no
# "my", "no may" and "untimed" go without these, "I and you" have a form of their own for the two
# even in the present.
_TRAITS = """
company   | run swim dance play football go shop
gift      | give show
weeks     | buy sell visit repair learn go work write swim football dance
counted   | buy sell see have read write eat give show
new       | write bake
known     | open close like
placed    | sleep
not owned | buy
no may    | find look_for speak
untimed   | speak
I and you | have like
"""

GROUPS = {
    "person": ("adult", "young"),
    "minor": ("young", "son", "daughter"),
    "name": tuple(NAMES),
}
# These stand for a choice of pronoun, name, kin and noun, which the sampler makes.
PEOPLE = ("someone", "grown")


def expand(words: str) -> tuple[str, ...]:
    """The concepts that a cell of group names and concepts stands for, each once.

    Raises ValueError for a word that the lexicon does not know.
    """
    found: dict[str, None] = {}
    for word in words.split():
        members = [concept for concept, noun in NOUNS.items() if word in noun.groups]
        for group in GROUPS.get(word, ()):
            members += [group] if group in NAMES else expand(group)
        if not members and word not in (*NOUNS, *PEOPLE):
            raise ValueError(f"{word!r} is neither a noun nor a group of nouns of the lexicon")
        found |= dict.fromkeys(members or [word])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Frame:
    """A verb with the subjects, objects and places that make sense with it, and its uses."""

    verb: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    uses: tuple[str, ...]


def _adjectives_by_noun() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for adjective, nouns in rows(_BEFORE):
        for noun in expand(nouns):
            table.setdefault(noun, []).append(adjective)
    return table


FRAMES = [
    Frame(verb, expand(subjects), expand(objects), tuple(places.split()), USES[use])
    for verb, subjects, objects, places, use in rows(_FRAMES)
]
TRAITS = {trait: frozenset(verbs.split()) for trait, verbs in rows(_TRAITS)}
MOODS = ("tired", "hungry", "thirsty", "sick", "sad", "happy")
BEFORE = _adjectives_by_noun()
SAID = [
    *((adjective, expand(nouns)) for adjective, nouns in rows(_SAID)),
    *((mood, PEOPLE[:1]) for mood in MOODS),
]
COMPARED = [
    (adjective, expand(group))
    for adjective, groups in rows(_COMPARED)
    for group in groups.split(";")
]
WHEREABOUTS = [(expand(things), tuple(places.split())) for things, places in rows(_WHEREABOUTS)]
REASONS = {
    verb: (tuple(aspects.split()), tuple(reasons.split()))
    for verbs, aspects, reasons in rows(_REASONS)
    for verb in verbs.split()
}
