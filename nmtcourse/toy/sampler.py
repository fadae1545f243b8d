"""Random meanings: sentences of every kind."""

from __future__ import annotations

from dataclasses import replace

from nmtcourse.toy.closed_class import NAMES
from nmtcourse.toy.events import SPEAKING, SPOKEN_OF, EventSampler, has_common_form
from nmtcourse.toy.lexicon import NOUNS
from nmtcourse.toy.meaning import Clause, Comparison, Event, Location, Phrase, Sentence, State
from nmtcourse.toy.world import (
    COMPARED,
    FRAMES,
    MOODS,
    PEOPLE,
    REASONS,
    SAID,
    TRAITS,
    WHEREABOUTS,
    Frame,
    expand,
)

# Of a hundred sentences, how many are of each kind.
SHARES = {
    "statement": 38,
    "question": 12,
    "wh": 8,
    "that": 16,
    "because": 8,
    "state": 6,
    "comparison": 6,
    "location": 6,
}
ATTITUDES = ("think", "know_that", "hope", "say")
GOODS = expand("vehicle dress coat hat bag watch house computer")
PRONOUN_OF = {
    **{name: pronoun for name, (_, pronoun) in NAMES.items()},
    **dict.fromkeys(("man", "teacher", "boy", "father", "son", "he"), "he"),
    **dict.fromkeys(("woman", "doctor", "neighbour", "mother", "daughter", "she"), "she"),
    **{pronoun: pronoun for pronoun in ("I", "we", "they")},
}
FIRST_FRAME = {frame.verb: frame for frame in reversed(FRAMES)}
ASKED_ABOUT = {
    "who": ("now", "past", "will", "modal", "state"),
    "what": ("now", "past", "will", "modal"),
    "where": ("will", "modal", "daily"),
    "where to": ("past", "will", "modal", "daily"),
}


class Sampler(EventSampler):
    """Draws meanings from a `random.Random`; the same state of it gives the same meanings."""

    def sentence(self) -> Sentence:
        """One meaning."""
        kind = self.rng.choices(list(SHARES), list(SHARES.values()))[0]
        return getattr(self, kind)()

    def statement(self) -> Sentence:
        """Anna reads.  A dog is sleeping.  Tomorrow we will go to school."""
        event = self.any_event()
        noun = NOUNS.get(event.subject.noun)
        countable = noun and noun.measure
        if event.aspect == "now" and not event.negated and countable and self.chance(0.5):
            event = replace(event, subject=self.new(event.subject.noun, chance=0.7))
        movable = event.time and event.aspect != "plain"
        return Sentence(event, time_first=bool(movable) and self.chance(0.4))

    def question(self) -> Sentence:
        """Does Anna ...?  Can you ...?"""
        if self.chance(0.2):
            clause = self._clause_without_event()
            plain = {"degree": "more"} if isinstance(clause, Comparison) else {"negated": False}
            return Sentence(replace(clause, **plain), question=True)
        frame = self.pick(FRAMES)
        return Sentence(self._asked(frame, self.pick(frame.uses), you=0.5), question=True)

    def wh(self) -> Sentence:
        """Who ...?  What ...?  Where ...?"""
        ask = self.pick(("who", "what", "where"))
        frame = self.pick([frame for frame in FRAMES if _can_ask(ask, frame)])
        uses = ASKED_ABOUT["where to" if ask == "where" and frame.verb == "go" else ask]
        use = self.pick([use for use in frame.uses if use in uses])
        if ask == "who":
            return Sentence(self._asked(frame, use, who=True), question=True)
        event = self._asked(frame, use, you=0.4)
        if ask == "what":
            return Sentence(replace(event, object=Phrase("what")), question=True)
        time = "" if event.aspect == "plain" and frame.verb != "go" else event.time
        return Sentence(replace(event, place="where", time=time), question=True)

    def that(self) -> Sentence:
        """Anna hopes that ..."""
        speaker = self.someone("grown")
        myself = speaker.noun in ("I", "we")
        attitude = self.pick(ATTITUDES[:-1] if myself else ATTITUDES)
        while True:
            clause = self.any_event() if self.chance(0.7) else self._clause_without_event()
            new = clause.subject.noun not in (("I", "we") if myself else (speaker.noun,))
            if new and (attitude != "hope" or _is_hoped(clause)):
                return Sentence(clause, speaker=speaker, attitude=attitude)

    def because(self) -> Sentence:
        """... because she is tired"""
        if self.chance(0.35):
            return self._purchase()
        verb = self.pick(tuple(REASONS))
        aspects, reasons = REASONS[verb]
        aspect, reason = self.pick(aspects), self.pick(reasons)
        subject = self._doer(FIRST_FRAME[verb], SPEAKING[1:] if aspect == "now" else SPEAKING)
        negated = aspect.startswith("not-")
        event = self.event(FIRST_FRAME[verb], subject, aspect.removeprefix("not-"), negated=negated)
        pronoun = Phrase("they" if subject.plural else PRONOUN_OF[subject.noun])
        because: State | Event = State(pronoun, reason)
        if reason == "no_time":
            because = Event(pronoun, "have", "plain", Phrase("time"), negated=True)
        return Sentence(event, reason=because)

    def state(self) -> Sentence:
        """The soup is hot.  Anna was not tired yesterday."""
        adjective, nouns = self.pick(SAID)
        concept = self.pick(nouns)
        subject = self.someone(concept) if concept in PEOPLE else self.known(concept)
        past = adjective in MOODS and self.chance(0.4)
        time = self.pick(("yesterday", "this_morning")) if past else ""
        if adjective in MOODS and not past and self.chance(0.3):
            time = "today"
        subject = replace(subject, adjective="")
        return Sentence(State(subject, adjective, time, past, self.chance(0.25)))

    def comparison(self) -> Sentence:
        """Bigger than, as big as, not as big as; two houses must both be pointed out: this, my."""
        while True:
            adjective, nouns = self.pick(COMPARED)
            known = [self.known(self.pick(nouns)) for _ in range(2)]
            one, other = (replace(phrase, adjective="", plural=False) for phrase in known)
            if one.noun != other.noun or len({one.determiner, other.determiner, "the"}) == 3:
                degree = self.pick(("more", "more", "as", "less"))
                return Sentence(Comparison(one, adjective, other, degree))

    def location(self) -> Sentence:
        """The key is on the table.  There is no key on the table."""
        things, places = self.pick(WHEREABOUTS)
        concept, exists, negated = self.pick(things), self.chance(0.5), self.chance(0.2)
        subject = self.someone(concept) if concept in PEOPLE else self.known(concept)
        exists = exists and subject.noun in NOUNS and bool(NOUNS[subject.noun].measure)
        if exists:
            subject = self.new(subject.noun, counted=not negated, chance=0.7)
        return Sentence(Location(subject, self.pick(places), exists, negated))

    def _clause_without_event(self) -> Clause:
        return self.pick((self.state, self.comparison, self.location))().clause

    def _asked(self, frame: Frame, use: str, *, you: float = 0.0, who: bool = False) -> Event:
        """An event that one asks about, by chance of "you"."""
        to_you = frame.subjects[0] in PEOPLE and has_common_form(frame, use) and self.chance(you)
        if who or to_you:
            subject = Phrase("who" if who else "you")
        else:
            subject = self.subject(frame, SPOKEN_OF)
        event = self.event(frame, subject, use)
        return replace(event, time="often") if event.time == "never" else event

    def _doer(self, frame: Frame, pronouns: tuple[str, ...]) -> Phrase:
        """A subject that a pronoun can take up.

        *das Kind* and *das Mädchen* are neither he nor she; for women and girls, "they" is 她们.
        """
        while True:
            subject = self.subject(frame, pronouns)
            women = subject.noun in ("woman", "girl")
            if not women if subject.plural else subject.noun in PRONOUN_OF:
                return subject

    def _purchase(self) -> Sentence:
        """Anna wants to buy the hat because it is cheap."""
        subject = self._doer(FIRST_FRAME["buy"], SPEAKING)
        concept, negated = self.pick(GOODS), self.chance(0.5)
        thing = replace(self.known(concept, owned=False), plural=False)
        if thing.adjective in ("cheap", "expensive"):
            thing = replace(thing, adjective="")
        event = Event(subject, "buy", "want", thing, negated=negated)
        price = "expensive" if negated else "cheap"
        return Sentence(event, reason=State(Phrase(concept, "it"), price))


def _can_ask(word: str, frame: Frame) -> bool:
    if frame.subjects[0] not in PEOPLE:
        return False
    if word == "what":
        things = frame.objects and not set(frame.objects) & {"someone", "dog", "boy"}
        return bool(things) and "state" not in frame.uses and frame.verb not in TRAITS["known"]
    placed = bool(frame.places and not frame.objects and "daily" in frame.uses)
    return word == "who" or frame.verb == "go" or placed


def _is_hoped(clause: Clause) -> bool:
    """One hopes for what is not known yet."""
    return isinstance(clause, Event) and clause.aspect in ("will", "can") and not clause.negated
