"""What makes sense: who does what to what, where things are, and why people do not go to work.

The cells name groups of the lexicon ("pet", "food") or single concepts ("milk").
"""

from __future__ import annotations

from dataclasses import dataclass

from nmtlib.data.toy.closed_class import NAMES
from nmtlib.data.toy.lexicon import NOUNS, rows

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

# verb | subject | object | places | use.  The place is where to for "go"; an object "someone" is any person.
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

# adjective | nouns it may stand before | nouns it may be said of | groups whose members compare
_FITTING = """
big         | pet horse house table bag cake car flower | pet horse house table bag car | dog cat horse cow ; house ; table ; car ; bag
tall        |                                       | boy girl man woman kin name          | person
small       | pet bird house table bag car     | pet bird house bag              | dog cat bird ; house ; bag 
new         | vehicle clothes house computer watch table teacher neighbour | vehicle clothes computer watch | vehicle ; computer
old         | man woman teacher doctor neighbour    |                                      |
old_animal  | pet horse                             |                                      |
old_thing   | vehicle clothes house computer table chair newspaper photo | vehicle house computer chair coat | vehicle ; house ; computer
red         | vehicle dress coat hat bag chair flower |                                    |
black       | pet horse bird car clothes bag        |                                      |
white       | pet horse bird car clothes flower house |                                    |
beautiful   | woman horse bird flower dress house watch photo | horse flower dress house watch | dress coat ; horse ; house ; watch
cheap       | vehicle clothes bag watch computer    | vehicle clothes bag watch computer   | vehicle ; clothes ; watch bag
expensive   | vehicle clothes bag watch house       | vehicle clothes bag watch house      | vehicle ; clothes ; watch computer
heavy       |                                       | bag table computer chair             | bag computer ; table chair
young       | man woman teacher doctor neighbour    | teacher doctor neighbour mother father | adult name
clever      | child boy girl dog                    | child boy girl dog kin name          | child boy girl name ; pet
interesting | book letter film newspaper            | book letter film newspaper           | book film newspaper
good        | book film teacher doctor              |                                  |
hot         | coffee tea soup                       | coffee tea milk soup                 |
cold        | coffee milk water soup                | coffee tea milk soup                 |
fresh       | bread fish milk meat egg              | bread fish milk meat                 |
tired       |                                       | someone                              |
hungry      |                                       | someone                              |
thirsty     |                                       | someone                              |
sick        |                                       | someone                              |
sad         |                                       | someone                              |
happy       |                                       | someone                              |
"""

# what may be | where
_WHEREABOUTS = """
text thing hat photo             | on_table under_table on_chair
snack                            | on_table kitchen
clothes                          | on_chair
thing hat book                   | kitchen office under_chair
pet                              | garden kitchen under_table on_chair under_chair under_tree before_door behind_house
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
cry                                    | now              | sad tired
work run swim dance football cook      | not-can not-want not-will | tired sick
shop go bake  learn visit          | not-can not-want not-will | tired sick no_time
"""

# What is special about a verb.
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
    """The concepts that a cell of group names and concepts stands for, each once."""
    found: dict[str, None] = {}
    for word in words.split():
        members = [concept for concept, noun in NOUNS.items() if word in noun.groups]
        for group in GROUPS.get(word, ()):
            members += [group] if group in NAMES else expand(group)
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


def _by_noun(column: int) -> dict[str, list[str]]:
    """Noun concept -> adjectives, from the cells of one column of the table of fitting adjectives."""
    table: dict[str, list[str]] = {}
    for adjective, *cells in rows(_FITTING):
        for noun in expand(cells[column]):
            table.setdefault(noun, []).append(adjective)
    return table


FRAMES = [
    Frame(verb, expand(subjects), expand(objects), tuple(places.split()), USES[use])
    for verb, subjects, objects, places, use in rows(_FRAMES)
]
TRAITS = {trait: frozenset(verbs.split()) for trait, verbs in rows(_TRAITS)}
BEFORE = _by_noun(0)
PREDICATES = [(adjective, expand(nouns)) for adjective, _, nouns, _ in rows(_FITTING) if nouns]
COMPARABLE = [
    (adjective, expand(group))
    for adjective, _, _, groups in rows(_FITTING)
    for group in filter(None, groups.split(" ; "))
]
WHEREABOUTS = [(expand(things), tuple(places.split())) for things, places in rows(_WHEREABOUTS)]
REASONS = {
    verb: (tuple(aspects.split()), tuple(reasons.split()))
    for verbs, aspects, reasons in rows(_REASONS)
    for verb in verbs.split()
}
