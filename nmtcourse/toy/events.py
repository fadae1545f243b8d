"""Random events: a person does something, somewhere, at some time."""

from __future__ import annotations

from dataclasses import replace

from nmtcourse.toy.closed_class import OFTEN
from nmtcourse.toy.lexicon import NOUNS
from nmtcourse.toy.meaning import Event, Phrase
from nmtcourse.toy.phrases import PhraseSampler
from nmtcourse.toy.world import FRAMES, PEOPLE, TRAITS, USES, Frame, expand

SPEAKING = ("I", "he", "she", "we", "they")
SPOKEN_OF = ("he", "she", "they")
MODALS = ("can", "must", "want", "may")
# The last of each suits only what one does in the course of a week (the trait "weeks").
PAST_TIMES = ("yesterday", "this_morning", "monday", "today", "last_week")
COMING_TIMES = ("tomorrow", "this_evening", "monday", "next_week")
DAILY_TIMES = ("every_day", "every_morning", "often", "sometimes", "never")
MODAL_TIMES = ("today", "tomorrow", "monday", "this_evening")
WARES = expand("snack flower")


def has_common_form(frame: Frame, use: str) -> bool:
    """Whether "I" and "you" fit: their verb forms are rare, so they keep to ich habe, du willst."""
    return use in ("past", "will", "modal") or frame.verb in TRAITS["I and you"]


class EventSampler(PhraseSampler):
    """Draws events that make sense."""

    def any_event(self) -> Event:
        """An event of any kind, one in five negated."""
        frame = self.pick(FRAMES)
        use = self.pick(frame.uses)
        subject = self.subject(frame, SPEAKING if has_common_form(frame, use) else SPEAKING[1:])
        return self.event(frame, subject, use, negated=self.chance(0.2))

    def event(self, frame: Frame, subject: Phrase, use: str, *, negated: bool = False) -> Event:
        """Somebody does what the frame allows; `use` is one of its uses, or a modal."""
        verb = frame.verb
        if use == "modal":
            use = self.pick(MODALS[:-1] if verb in TRAITS["no may"] else MODALS)
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
            # Without a time, "read" could be present or past, and Mandarin 睡觉 了 "fell asleep".
            optional = frame.objects and verb != "read" and self.chance(0.2)
            return "" if optional else self.pick(PAST_TIMES[:last])
        if use == "will":  # always with its time: 会 without one is "can"
            return self.pick(COMING_TIMES[:last])
        if use == "daily" and not negated:
            return "every_week" if last is None and self.chance(0.3) else self.pick(DAILY_TIMES)
        timed = use in MODALS and verb not in TRAITS["untimed"]
        return self.pick(MODAL_TIMES) if timed and self.chance(0.5) else ""

    def _object(self, frame: Frame, event: Event, taken: list[Phrase]) -> Phrase:
        verb, concept = frame.verb, self.pick(frame.objects)
        if concept in PEOPLE or verb == "fetch":
            return self.other(frame.objects, *taken)
        often_or_never = event.time in OFTEN or (not event.time and event.negated)
        in_general = event.aspect == "plain" and often_or_never
        if frame.uses == USES["state"]:
            in_general = verb == "like" and self.chance(0.5)
        if in_general or event.aspect == "like" or (verb == "sell" and concept in WARES):
            return self.generic(concept)
        always_known = verb in TRAITS["known"]
        always_new = verb in TRAITS["new"] or (event.aspect == "plain" and not always_known)
        new = always_new or (not always_known and self.chance(0.5))
        if new or not NOUNS[concept].measure:
            counted = verb in TRAITS["counted"] and not event.negated and event.aspect != "now"
            return self.new(concept, counted)
        return self.known(concept, owned=verb not in TRAITS["not owned"])
