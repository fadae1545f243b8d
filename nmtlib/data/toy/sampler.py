"""Meanings at random: clauses and sentences that make sense."""

from __future__ import annotations

from dataclasses import replace

from nmtlib.data.toy.closed_class import NAMES, OFTEN
from nmtlib.data.toy.lexicon import NOUNS
from nmtlib.data.toy.meaning import Clause, Comparison, Event, Location, Phrase, Sentence, State
from nmtlib.data.toy.phrases import SPEAKING, SPOKEN_OF, PhraseSampler
from nmtlib.data.toy.world import (
    COMPARABLE,
    FRAMES,
    PEOPLE,
    PREDICATES,
    REASONS,
    TRAITS,
    USES,
    WHEREABOUTS,
    Frame,
    expand,
)

PAST_TIMES = ("yesterday", "this_morning", "monday", "today", "last_week")
COMING_TIMES = ("tomorrow", "this_evening", "monday", "next_week")
MODAL_TIMES = ("today", "tomorrow", "monday", "this_evening")
DAILY_TIMES = ("every_day", "every_morning", *sorted(OFTEN))
MODALS = ("can", "must", "want", "may")
ATTITUDES = ("think", "know_that", "hope", "say")
MOODS = ("tired", "hungry", "thirsty", "sick", "sad", "happy")
WARES = expand("snack flower")
GOODS = expand("vehicle dress coat hat bag watch house computer")
PRONOUN_OF = {
    **{name: pronoun for name, (_, pronoun) in NAMES.items()},
    **dict.fromkeys(("man", "teacher", "boy", "father", "son", "he"), "he"),
    **dict.fromkeys(("woman", "doctor", "neighbour", "mother", "daughter", "she"), "she"),
    **{pronoun: pronoun for pronoun in ("I", "we", "they")},
}
KINDS = ("statement", "question", "wh", "that", "because", "state", "comparison", "location")
SHARES = (38, 12, 8, 16, 8, 6, 6, 6)
BY_VERB = {verb: [frame for frame in FRAMES if frame.verb == verb] for verb in {f.verb: 0 for f in FRAMES}}


class Sampler(PhraseSampler):
    """Draws meanings from a `random.Random`; the same state of it gives the same meanings."""

    def sentence(self) -> Sentence:
        """One meaning."""
        kind = self.rng.choices(KINDS, SHARES)[0]
        return getattr(self, "_" + kind)()

    # --- events ---

    def event(self, frame: Frame, subject: Phrase, use: str, *, negated: bool = False) -> Event:
        """Somebody does what the frame allows; `use` is one of the uses of the frame, or a modal."""
        verb = frame.verb
        if use == "modal":
            use = self.pick(MODALS[:3] if verb in TRAITS["no may"] else MODALS)
        aspect = "plain" if use in ("daily", "state") else use
        event = Event(subject, verb, aspect, time=self._time(frame, use, negated), negated=negated)
        taken = [subject]
        if verb in TRAITS["gift"]:
            event = replace(event, recipient=self.other(("someone",), subject))
            taken.append(event.recipient)
        if frame.objects:
            event = replace(event, object=self._object(frame, event, taken))
        if verb in TRAITS["company"] and self.chance(0.3):
            event = replace(event, companion=self.other(("someone",), *taken))
        needed = verb == "go" or (verb in TRAITS["placed"] and use in ("past", "will", "daily"))
        crowded = frame.objects and (negated or use == "like")
        if needed or (frame.places and not crowded and self.chance(0.5)):
            event = replace(event, place=self.pick(frame.places))
        return event

    def _time(self, frame: Frame, use: str, negated: bool) -> str:
        verb, last = frame.verb, None if frame.verb in TRAITS["weeks"] else -1
        if use == "past":
            # Without its time, English "read" could be present or past, and Mandarin 睡觉 了 "fell asleep".
            optional = frame.objects and verb != "read" and self.chance(0.2)
            return "" if optional else self.pick(PAST_TIMES[:last])
        if use == "will":
            return self.pick(COMING_TIMES[:last])
        if use == "daily" and not negated:
            return "every_week" if last is None and self.chance(0.3) else self.pick(DAILY_TIMES)
        timed = use in MODALS and verb not in TRAITS["untimed"]
        return self.pick(MODAL_TIMES) if timed and self.chance(0.5) else ""

    def _object(self, frame: Frame, event: Event, taken: list[Phrase]) -> Phrase:
        verb, concept = frame.verb, self.pick(frame.objects)
        if concept in PEOPLE or verb == "fetch":
            return self.other(frame.objects, *taken)
        in_general = event.aspect == "plain" and (event.time in OFTEN or (not event.time and event.negated))
        if frame.uses == USES["state"]:
            in_general = verb == "like" and self.chance(0.5)
        if in_general or event.aspect == "like" or (verb == "sell" and concept in WARES):
            return self.generic(concept)
        new = event.aspect == "plain"
        if verb in TRAITS["new"] or (verb not in TRAITS["known"] and (new or self.chance(0.5))):
            counted = verb in TRAITS["counted"] and not event.negated and event.aspect != "now"
            return self.new(concept, counted)
        return self._definite(concept, owned=verb not in TRAITS["not owned"])

    def _definite(self, concept: str, owned: bool = True) -> Phrase:
        """The known thing; what is not counted stays without an article (drinks coffee)."""
        return self.known(concept, owned) if NOUNS[concept].measure else self.new(concept)

    def _use(self, frame: Frame, *wanted: str) -> str:
        return self.pick([use for use in frame.uses if not wanted or use in wanted])

    def _any_event(self) -> Event:
        frame = self.pick(FRAMES)
        use = self._use(frame)
        subject = self.subject(frame, SPEAKING[not _has_common_form(frame, use) :])
        return self.event(frame, subject, use, negated=self.chance(0.2))

    # --- sentences ---

    def _statement(self) -> Sentence:
        event = self._any_event()
        if event.aspect == "now" and not event.negated and self.chance(0.5):
            event = self._caption(event)
        movable = event.aspect != "plain" and event.time
        return Sentence(event, time_first=bool(movable) and self.chance(0.4))

    def _caption(self, event: Event) -> Event:
        """The same seen by a stranger: a dog, two men."""
        noun = event.subject.noun
        if noun in PRONOUN_OF and noun not in ("man", "teacher", "boy", "woman", "doctor"):
            return event
        return replace(event, subject=self.new(noun, chance=0.7))

    def _question(self) -> Sentence:
        """Does Anna ...?  Can you ...?"""
        if self.chance(0.2):
            clause = self.pick((self._state, self._comparison, self._location))().clause
            plain = {"degree": "more"} if isinstance(clause, Comparison) else {"negated": False}
            return Sentence(replace(clause, **plain), question=True)
        frame = self.pick(FRAMES)
        use = self._use(frame)
        you = _has_common_form(frame, use)
        subject = Phrase("you") if you and frame.subjects[0] in PEOPLE and self.chance(0.5) else self.subject(
            frame, SPOKEN_OF)  # fmt: skip
        return Sentence(self.event(frame, subject, use), question=True)

    def _wh(self) -> Sentence:
        """Who ...?  What ...?  Where ...?"""
        ask = self.pick(("who", "what", "where"))
        frames = [frame for frame in FRAMES if frame.subjects[0] in PEOPLE and _can_ask(ask, frame)]
        frame = self.pick(frames)
        uses = {"who": ("now", "past", "will", "modal", "state"), "what": ("now", "past", "will", "modal"),
                "where": ("will", "modal", "daily", "past")[: 4 if frame.verb == "go" else 3]}[ask]  # fmt: skip
        use = self._use(frame, *uses)
        you = _has_common_form(frame, use) and self.chance(0.4)
        subject = Phrase("you") if you else self.subject(frame, SPOKEN_OF)
        if ask == "who":
            subject = Phrase("who")
        event = self.event(frame, subject, use)
        if ask == "what":
            event = replace(event, object=Phrase("what"))
        elif ask == "where":
            time = "" if event.aspect == "plain" and frame.verb != "go" else event.time
            event = replace(event, place="where", time=time)
        return Sentence(event, question=True)

    def _that(self) -> Sentence:
        """Anna hopes that ..."""
        speaker = self.someone("grown")
        attitude = self.pick(ATTITUDES)
        me = speaker.noun in ("I", "we")
        while attitude == "say" and me:
            attitude = self.pick(ATTITUDES)
        while True:
            clause = self._any_event() if self.chance(0.7) else self._other_clause()
            new = clause.subject.noun not in (("I", "we") if me else (speaker.noun,))
            if new and (attitude != "hope" or _is_hoped(clause)):
                return Sentence(clause, speaker=speaker, attitude=attitude)

    def _other_clause(self) -> Clause:
        return self.pick((self._state, self._comparison, self._location))().clause

    def _because(self) -> Sentence:
        """... because she is tired"""
        if self.chance(0.35):
            return self._purchase()
        verb = self.pick(tuple(REASONS))
        frame = self.pick(BY_VERB[verb][:1])
        aspects, reasons = REASONS[verb]
        aspect = self.pick(aspects)
        subject = self._doer(frame, SPEAKING[aspect == "now" :])
        negated = aspect.startswith("not-")
        event = self.event(frame, subject, aspect.removeprefix("not-"), negated=negated)
        pronoun, reason = Phrase(_pronoun(subject)), self.pick(reasons)
        if reason == "no_time":
            why = Event(pronoun, "have", "plain", Phrase("time"), negated=True)
        else:
            why = State(pronoun, reason)
        return Sentence(event, reason=why)

    def _doer(self, frame: Frame, pronouns: tuple[str, ...]) -> Phrase:
        """A subject that a pronoun can take up: *das Kind* and *das Mädchen* are neither he nor she."""
        while True:
            subject = self.subject(frame, pronouns)
            if subject.plural or subject.noun in PRONOUN_OF:
                return subject

    def _purchase(self) -> Sentence:
        """Anna wants to buy the hat because it is cheap."""
        frame = self.pick(BY_VERB["buy"])
        subject, concept = self._doer(frame, SPEAKING), self.pick(GOODS)
        thing = self.known(concept, owned=False)
        while thing.plural or thing.adjective in ("cheap", "expensive"):
            thing = self.known(concept, owned=False)
        negated = self.chance(0.5)
        event = Event(subject, "buy", "want", thing, negated=negated)
        why = "expensive" if negated else "cheap"
        return Sentence(event, reason=State(Phrase(concept, "it"), why))

    def _state(self) -> Sentence:
        adjective, nouns = self.pick(PREDICATES)
        concept = self.pick(nouns)
        subject = self.someone(concept) if concept in PEOPLE else self.known(concept)
        subject = replace(subject, adjective="")
        past = adjective in MOODS and self.chance(0.4)
        time = self.pick(("yesterday", "this_morning")) if past else ""
        if adjective in MOODS and not past and self.chance(0.3):
            time = "today"
        return Sentence(State(subject, adjective, time, past, negated=self.chance(0.25)))

    def _comparison(self) -> Sentence:
        """bigger than, as big as, not as big as; of two houses both must be pointed out (this, my)"""
        while True:
            adjective, nouns = self.pick(COMPARABLE)
            one, other = (replace(self.known(self.pick(nouns)), adjective="", plural=False) for _ in range(2))
            if one.noun != other.noun or len({one.determiner, other.determiner, "the"}) == 3:
                degree = self.pick(("more", "more", "as", "less"))
                return Sentence(Comparison(one, adjective, other, degree))

    def _location(self) -> Sentence:
        things, places = self.pick(WHEREABOUTS)
        concept, exists = self.pick(things), self.chance(0.5)
        negated = self.chance(0.2)
        if concept in PEOPLE:
            subject = self.someone(concept)
        else:
            subject = self.known(concept)
        exists = exists and subject.noun in NOUNS and bool(NOUNS[subject.noun].measure)
        if exists:
            subject = self.new(subject.noun, counted=not negated, chance=0.7)
        return Sentence(Location(subject, self.pick(places), exists, negated))


def _has_common_form(frame: Frame, use: str) -> bool:
    """Whether "I" and "you" fit: their verb forms are rare, so they keep to ich habe, du willst and the like."""
    return use in ("past", "will", "modal") or frame.verb in TRAITS["I and you"]


def _pronoun(subject: Phrase) -> str:
    return "they" if subject.plural else PRONOUN_OF[subject.noun]


def _can_ask(word: str, frame: Frame) -> bool:
    if word == "who":
        return frame.verb not in ("like", "need", "know")
    if word == "what":
        return bool(frame.objects) and not set(frame.objects) & {"someone", "dog", "boy"} and (
            "state" not in frame.uses and frame.verb not in ("listen", "tidy", "open", "close"))  # fmt: skip
    return frame.verb == "go" or (bool(frame.places) and not frame.objects and "daily" in frame.uses)


def _is_hoped(clause: Clause) -> bool:
    """One hopes for what is not known yet."""
    return isinstance(clause, Event) and clause.aspect in ("will", "can") and not clause.negated
