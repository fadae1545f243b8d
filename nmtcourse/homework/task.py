"""Assignments: tasks, each with a solution, known mistakes, and properties to check.

A master (`nmtcourse.homework.masters`) is a module with one `Assignment`, filled by its decorators:
`task` takes the solution, `check` a property of answers to it, `question` a choice. Everything that
students and instructors see is made from it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import ascii_uppercase
from typing import Any

import torch

from nmtcourse.homework.compare import Finding
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.laws import parameter_names, walk_parts
from nmtcourse.homework.signatures import draw_arguments, left_in, observe_results
from nmtcourse.homework.traces import trace
from nmtlib.errors import require

DRAWS, ALL_DRAWS = 40, 64  # inputs of a property, and of one for all that a page allows
LEVELS = {"easy": (4, 15), "medium": (6, 30), "hard": (8, 60)}  # points and minutes
SOLUTION = re.compile(r"(?m)^( *)### BEGIN SOLUTION\n(?:.*\n)*?\1### END SOLUTION\n?")
MARKS = re.compile(r"(?m)^ *### (?:BEGIN|END) SOLUTION\n?")
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
STATEMENT = "For any arguments that the text allows, the result is that of the definition."
ADVICE = "Which of these have you not tried yet: sizes, types, masks, equal numbers, large ones?"
BLANK = "?"  # a choice that is not made yet; unlike the stub, it does not stop "Run All"

Measure = Callable[[Any, Draw], Any]
Edit = tuple[str, str]  # a piece of the solution, and its replacement


@dataclass(frozen=True)
class Property:
    """A property of an answer: `measure(answer, draw)` raises `Finding` if it does not hold.

    A `measure` that yields pairs of a description and a value has them compared with those of the
    solution. `worth` is its weight among the points of the task; `draws` is how many inputs are
    tried, `again` whether each is tried with other numbers and once more as well, and `shrinks`
    whether a simpler one is looked for.
    """

    statement: str
    advice: str
    worth: float
    draws: int
    measure: Measure
    again: bool = True
    shrinks: bool = True
    made: bool = False  # of a signature, with nothing but comparisons with the solution
    plain: bool = False  # it compares the result, and nothing else
    whole: bool = False  # it holds for all that the signature allows
    inside: bool = False  # it looks at how an answer computes, which its results do not show


@dataclass(eq=False)
class Task:
    """One thing to write: text and hints, the solution, its mistakes, and its properties.

    `mistakes` maps each mistake to the edits that turn the solution into it. An answer may change
    what it is given where it is not `pure`, otherwise the arguments that it `changes`. `forbidden`
    functions of torch may not be called, nor those of `sealed` modules; a `seeded` function may not
    use a global random generator. The `signature` says which arguments the text allows. Up to so
    many `calls` of the methods of a class are made; `shown` are its attributes, and its weights are
    `listed` in the text or not. `uses` names the answers that a choice needs.
    """

    id: str
    name: str
    title: str
    text: str
    level: str
    hints: tuple[str, str]
    read: str
    source: str
    points: float
    minutes: int
    given: str = ""
    example: str = ""
    mistakes: dict[str, Sequence[Edit]] = field(default_factory=dict)
    pure: bool = True
    changes: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()
    seeded: bool = False
    signature: Mapping[str, Any] = field(default_factory=dict)
    calls: int = 3
    shown: tuple[str, ...] = ()
    listed: bool = True
    seconds: float = 20.0
    uses: tuple[str, ...] = ()
    checks: list[Property] = field(default_factory=list)
    namespace: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def properties(self) -> list[Property]:
        """All properties, in the order in which they are tried; that of the signature is last."""
        whole = any(prop.whole for prop in self.checks)
        if not self.signature or whole:
            return self.checks
        measure = equals_the_solution(self, self.signature)
        plain = not (inspect.isclass(self.solution) or self.changes)
        prop = Property(STATEMENT, ADVICE, 1.0, ALL_DRAWS, measure, made=True, plain=plain)
        return [*self.checks, prop]

    @property
    def check_line(self) -> str:
        """The one line of the check cell."""
        return f'grade("{self.id}", {", ".join([self.name, *self.uses])})'

    @property
    def student_source(self) -> str:
        """The source with a stub instead of the solution."""

        def stub(solution: re.Match) -> str:
            if self.uses:  # a choice: its line with a question mark is enough
                return ""
            return textwrap.indent(STUB, solution[1]) + "\n"

        return SOLUTION.sub(stub, self.source + "\n").rstrip()

    @property
    def solution_source(self) -> str:
        """The source without the marks of the solution."""
        return MARKS.sub("", self.source + "\n").rstrip()

    @cached_property
    def solution(self) -> Any:
        """The solution as a function, class or value."""
        return self.build(self.source)

    @cached_property
    def wrong(self) -> dict[str, Any]:
        """The solution with each of the mistakes, by its description."""
        return {about: self.build(self.edited(edits)) for about, edits in self.mistakes.items()}

    def edited(self, edits: Sequence[Edit]) -> str:
        """The source with some pieces replaced; ValueError for a piece that is not in it."""
        source = self.source
        for old, new in edits:
            require(old in source, f"an edit of task {self.id}", f"in its source: {old!r}", new)
            source = source.replace(old, new)
        return source

    def build(self, source: str) -> Any:
        """What a source defines under the name of the task."""
        namespace = dict(self.namespace)
        exec(compile(source, f"<task {self.id}>", "exec"), namespace)
        return namespace[self.name]


class Assignment:
    """The homework of one notebook: an opening, imports that all tasks share, and the tasks."""

    def __init__(self, number: str, slug: str, title: str, opening: str, imports: str):
        self.number, self.slug, self.title = number, slug, title
        self.opening, self.imports = textwrap.dedent(opening).strip(), imports.strip()
        self.tasks: dict[str, Task] = {}  # by id

    @property
    def stem(self) -> str:
        """The stem of its file names."""
        return f"{self.number}_{self.slug}"

    @property
    def points(self) -> float:
        """The sum of all points."""
        return sum(task.points for task in self.tasks.values())

    def task(self, level: str, title: str, text: str, hints: tuple[str, str], **about: Any) -> Any:
        """Add a task whose solution is the decorated function or class.

        The part that the student writes is between `### BEGIN SOLUTION` and `### END SOLUTION`.
        `about` has the other fields of `Task`, at least `read`; `mistakes` as text (`edits`).
        """
        points, minutes = LEVELS[level]
        about = {"points": points, "minutes": minutes, **about}
        about["mistakes"] = edits(about.get("mistakes", ""))

        def register(solution: Any) -> Any:
            source = undecorated_source(solution)
            name = solution.__name__
            require(bool(SOLUTION.search(source + "\n")), name, "a marked solution", source[:60])
            task = Task(
                self._next_id(),
                name,
                title,
                _text(text),
                level,
                hints,
                source=source,
                namespace=vars(sys.modules[solution.__module__]),
                **about,
            )
            self.tasks[task.id] = task
            return solution

        return register

    def check(
        self,
        solution: Any,
        advice: str,
        *,
        worth: float = 1.0,
        draws: int = DRAWS,
        again: bool = True,
        shrinks: bool = True,
        whole: bool = False,
        inside: bool = False,
        **kinds: Any,
    ) -> Any:
        """Add the decorated function, with its docstring, as a `Property`.

        Besides the answer it takes arguments of the signature by name, some of them of other
        `kinds`, and `draw`.
        """
        task = self._task_of(solution)

        def register(measure: Callable) -> Callable:
            require(bool(measure.__doc__), measure.__name__, "documented: what must hold", None)
            statement = " ".join((measure.__doc__ or "").split())
            bound = bind_arguments(measure, {**task.signature, **kinds})
            options = {"again": again, "shrinks": shrinks, "whole": whole, "inside": inside}
            task.checks.append(Property(statement, advice, worth, draws, bound, **options))
            return measure

        return register

    def promise(
        self,
        solution: Any,
        statement: str,
        advice: str,
        *,
        worth: float = 1.0,
        draws: int = 0,
        **kinds: Any,
    ) -> None:
        """Add a property: for arguments of some `kinds` the result is the solution's."""
        task = self._task_of(solution)
        measure = equals_the_solution(task, {**task.signature, **kinds})
        whole = not kinds
        if not draws:
            draws = ALL_DRAWS if whole else DRAWS
        plain = not (inspect.isclass(solution) or task.changes)
        prop = Property(
            statement, advice, worth, draws, measure, made=True, plain=plain, whole=whole
        )
        task.checks.append(prop)

    def question(
        self, title: str, options: Sequence[str], hints: tuple[str, str], *, read: str, uses: Any
    ) -> Any:
        """Add a choice. The decorated function takes the student's answers to the tasks `uses`, in
        this order, and returns the right letter; its docstring is the question.
        """
        letters = ascii_uppercase[: len(options)]
        pairs = zip(letters, options, strict=True)
        choices = "\n".join(f"- **{letter}** {option}" for letter, option in pairs)

        def register(right: Callable[..., str]) -> Callable[..., str]:
            def measure(subject: tuple, draw: Draw) -> None:
                choice, *answers = subject
                if not isinstance(choice, str) or choice.strip().upper() not in [*letters]:
                    raise Finding(f"your choice is {choice!r}", f"a letter from A to {letters[-1]}")
                if choice.strip().upper() != right(*answers):
                    raise Finding(f"you chose {choice!r}", "what your own function computes")

            name = f"choice_{self.number}"
            text = f"{_text(right.__doc__ or '')}\n\n{choices}"
            try:
                letter = right(*uses)
            except NotImplementedError:  # a master without solutions
                letter = BLANK
            marked = f'### BEGIN SOLUTION\n{name} = "{letter}"\n### END SOLUTION'
            source = f'{name} = "{BLANK}"  # replace the question mark by a letter\n{marked}'
            task = Task(
                self._next_id(),
                name,
                title,
                text,
                "question",
                hints,
                read,
                source,
                points=2,
                minutes=5,
                uses=tuple(answer.__name__ for answer in uses),
            )
            cause = "The result of your own function contradicts this choice: print its numbers."
            prop = Property("the choice is right", cause, 1.0, 1, measure, again=False)
            task.checks.append(prop)
            self.tasks[task.id] = task
            return right

        return register

    def _task_of(self, solution: Any) -> Task:
        return next(task for task in self.tasks.values() if task.name == solution.__name__)

    def _next_id(self) -> str:
        return f"{self.number}.{len(self.tasks) + 1}"


def equals_the_solution(task: Task, signature: Mapping[str, Any]) -> Measure:
    """What shows the results of an answer, called with arguments in the order of the solution's."""
    if inspect.isclass(task.solution):
        return trace(task, signature)

    def measure(answer: Any, draw: Draw, **drawn: Any) -> Any:
        names = parameter_names(task.solution)
        arguments = {name: drawn[name] for name in names if name in drawn}
        parts = walk_parts([*arguments.values()])
        tracked = any(getattr(part, "requires_grad", False) for part in parts)
        # A function that is given functions or modules may compute gradients itself.
        plain = not any(map(callable, arguments.values()))
        with torch.set_grad_enabled(not (plain and draw.without_gradients)):
            result = answer(*arguments.values())
        yield from observe_results(result, tracked)
        yield from left_in(arguments, task.changes)

    return bind_arguments(measure, signature)


# The check of a master
#
#     def is_shifted(answer, scores, draw): ...
#
# becomes `measure(answer, draw)`, which draws `scores` by the signature. All arguments of the
# signature are drawn, also those that this check does not take: so the same number means the same
# input in all checks of a task.
def bind_arguments(function: Callable, signature: Mapping[str, Any]) -> Measure:
    """A function of an answer and some arguments as one of an answer and a `Draw`."""
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    draws_itself = not takes_all and [*parameters][1:] in ([], ["draw"])

    def keywords(draw: Draw) -> dict[str, Any]:
        arguments: dict[str, Any] = {"draw": draw}
        if not draws_itself:
            arguments |= draw_arguments(signature, draw)
        if takes_all:
            return arguments
        return {name: value for name, value in arguments.items() if name in parameters}

    if not inspect.isgeneratorfunction(function):
        return lambda answer, draw: function(answer, **keywords(draw))

    def measure(answer: Any, draw: Draw) -> Any:  # a generator: `trials` compares what it yields
        yield from function(answer, **keywords(draw))

    return measure


def edits(text: str) -> dict[str, list[Edit]]:
    """The mistakes in a text: below each description the edits that make it, "old => new".

    A line that begins with => or \\n continues the one before. A part in quotes is a literal.

    >>> edits("It is inverted.\\n    ~mask => mask")
    {'It is inverted.': [('~mask', 'mask')]}
    """
    mistakes: dict[str, list[str]] = {}  # the lines of edits, by description
    lines: list[str] = []
    for line in _text(text).splitlines():
        edit = line.strip()
        if not line.startswith(" "):
            lines = mistakes[line] = []
        elif edit.startswith("\\n"):
            lines[-1] += edit
        elif edit.startswith("=>"):
            lines[-1] += f" {edit}"
        else:
            lines.append(edit)

    def code(part: str) -> str:
        part = part.strip(" ")
        if part.startswith("'"):
            return ast.literal_eval(part)
        return part.replace("\\n", "\n")

    def pair(line: str) -> Edit:
        old, new = line.split("=>", 1)
        return code(old), code(new)

    return {description: [*map(pair, lines)] for description, lines in mistakes.items()}


def undecorated_source(definition: Any) -> str:
    """The source of a function or class, without decorators and indentation."""
    source = textwrap.dedent(inspect.getsource(definition))
    node = ast.parse(source).body[0]
    return "\n".join(source.splitlines()[node.lineno - 1 :])


def _text(text: str) -> str:
    return textwrap.dedent(text).strip()
