"""Personal patients: a Transformer in one file, with bugs chosen by a student's name.

`patient(student)` is always the same for a name; `nmtcourse.projects.examining` judges a treated
patient.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import itertools
import json
import random
import sys
import textwrap
import types
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from nmtcourse.bugs import BUGS, Bug
from nmtcourse.bugs.planting import Edit
from nmtcourse.homework.compare import Finding, same
from nmtlib.files import write_atomically
from nmtlib.model import attention, embeddings, layers, transformer
from nmtlib.model.config import TransformerConfig
from nmtlib.specials import BOS, EOS, PAD

PARTS = (embeddings, attention, layers, transformer)  # dependencies first
FILE = "patient.py"


def can_be_flat(bug: Bug) -> bool:
    """Whether a bug affects only the model, so that one file can contain it."""
    names = {part.__name__.removeprefix("nmtlib.") for part in PARTS}
    return bool(bug.edits) and all(edit.where.partition(":")[0] in names for edit in bug.edits)


@dataclass(frozen=True)
class Patient:
    """A student's case: the planted bugs and the sizes of the model."""

    student: str
    bugs: tuple[Bug, ...]
    config: TransformerConfig

    def source(self, healthy: bool = False) -> str:
        """The file for the student: the whole model, with or without the bugs."""
        edits = [edit for bug in self.bugs for edit in bug.edits]
        if healthy:
            edits = []
        keys = sorted(bug.key for bug in BUGS if can_be_flat(bug))
        listed = textwrap.fill(", ".join(keys), 96, break_on_hyphens=False)
        imports = {"from nmtlib.model.config import TransformerConfig"}
        parts = []
        for part in PARTS:
            parts.append(without_opening(planted(part, edits), imports))
        config = ", ".join(f"{name}={value!r}" for name, value in vars(self.config).items())
        count = "one silent bug"
        if len(self.bugs) > 1:
            count = f"{len(self.bugs)} silent bugs"
        name = json.dumps(self.student, ensure_ascii=False)[1:-1]  # quotes and backslashes escaped
        opening = f'''"""The patient of {name}: a Transformer with {count}.

Find out what is wrong, write its name into DIAGNOSIS, and repair it; change nothing else.  Then:

    nmtlib homework examine {FILE}

Names to choose from:
{listed}
"""'''
        opening += "\n\nfrom __future__ import annotations\n\n"
        opening += "\n".join(sorted(imports))
        diagnosis = ", ".join('"?"' for _ in self.bugs)
        opening += f"\n\nSTUDENT = {self.student!r}\nDIAGNOSIS = [{diagnosis}]\n"
        return "\n\n\n".join([opening + f"CONFIG = TransformerConfig({config})", *parts]) + "\n"


def without_opening(text: str, imports: set[str]) -> str:
    """The code of a module behind its docstring and imports; these go to `imports`."""
    in_the_file = {part.__name__ for part in PARTS} | {"__future__"}
    body = ast.parse(text).body[1:]
    while isinstance(body[0], ast.Import | ast.ImportFrom):
        node = body.pop(0)
        if isinstance(node, ast.Import):
            imports.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module not in in_the_file:
            imports |= {f"from {node.module} import {ast.unparse(name)}" for name in node.names}
    # The line of a decorated class or function is below its decorators.
    decorators = getattr(body[0], "decorator_list", [])
    first = min([body[0].lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(text.splitlines()[first - 1 :]).strip()


@cache
def patient(student: str) -> Patient:
    """A student's patient: one or two bugs and a size, chosen by a hash of the name.

    Raises ValueError for an empty name.
    """
    if not student.strip():
        raise ValueError("a patient needs a student; give a name or number")
    chance = random.Random(hashlib.sha256(student.strip().encode()).digest())
    size, heads = chance.choice([(12, 2), (12, 3), (16, 2), (16, 4), (18, 3), (20, 2), (24, 4)])
    config = TransformerConfig(
        source_vocab_size=chance.randint(11, 19),
        target_vocab_size=chance.randint(20, 29),
        d_model=size,
        n_heads=heads,
        n_encoder_layers=chance.randint(1, 3),
        n_decoder_layers=chance.randint(1, 3),
        d_ff=chance.randint(20, 40),
        norm=chance.choice(["pre", "post"]),
        dropout=0.1,
    )
    candidates = [bug for bug in BUGS if can_be_flat(bug)]
    chance.shuffle(candidates)
    count = chance.choice([1, 2])
    for bugs in itertools.combinations(candidates, count):
        places = [edit.where for bug in bugs for edit in bug.edits]
        apart = len({*places}) == len(places)  # a second edit of a function may not fit
        if apart and all(shows(bug, config) for bug in bugs):
            return Patient(student.strip(), bugs, config)
    raise ValueError("no bug of the catalogue shows in this model")  # not met: see the tests


@cache
def shows(bug: Bug, config: TransformerConfig) -> bool:
    """Whether a bug changes the results of a model of these sizes."""
    case = Patient("", (bug,), config)
    try:
        agree(module_of(case.source()), module_of(case.source(healthy=True)), config)
    except Finding:
        return True
    except Exception:  # a model that does not run is not a silent bug
        return False
    return False


def planted(part: types.ModuleType, edits: list[Edit]) -> str:
    """The source of a module with the edits that belong to it."""
    text = inspect.getsource(part)
    for edit in edits:
        where, _, path = edit.where.partition(":")
        if f"nmtlib.{where}" == part.__name__:
            function = inspect.getsource(attrgetter(path)(part))
            margin = function[: len(function) - len(function.lstrip())]
            edited = edit.apply(textwrap.dedent(function))
            text = text.replace(function, textwrap.indent(edited, margin))
    return text


def module_of(source: str) -> types.ModuleType:
    """A module from that source."""
    module = types.ModuleType("patient")
    sys.modules["patient"] = module  # dataclasses look up their module
    exec(compile(source, "<patient>", "exec"), module.__dict__)
    return module


def agree(module: Any, healthy: Any, config: TransformerConfig) -> None:
    """Raise Finding unless two modules' models with the same weights give the same results."""
    for seed, dropout_rate in itertools.product(range(2), (0.0, 0.5)):
        varied = replace(config, dropout=dropout_rate)
        models = []
        for source in (module, healthy):
            torch.manual_seed(seed)
            models.append(source.Transformer(varied))
        weights = [dict(model.named_parameters()) for model in models]
        if weights[0].keys() != weights[1].keys():
            odd = sorted(weights[0].keys() ^ weights[1].keys())
            raise Finding(f"parameters differ: {odd[:3]}", "those of a healthy model")
        for name, value in weights[1].items():
            same(weights[0][name].detach(), value.detach(), f"the first value of {name}")
        results = [compute_results(model, varied, seed) for model in models]
        for name, value in results[1].items():
            same(results[0][name], value, name)


def compute_results(model: Any, config: TransformerConfig, seed: int) -> dict[str, torch.Tensor]:
    """Logits and gradients of a model on padded sentences, in evaluation and training mode."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(EOS + 2, config.source_vocab_size, (3, 7), generator=generator)
    target = torch.randint(EOS + 2, config.target_vocab_size, (3, 6), generator=generator)
    source[0, 4:] = PAD
    target[1, 3:] = PAD
    target[:, 0] = BOS
    results = {"a logit in evaluation mode": model.eval()(source, target)}
    torch.manual_seed(seed)
    logits = model.train()(source, target)
    results["a logit in training mode"] = logits
    logits.square().mean().backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    results["a gradient"] = torch.cat([grad.flatten() for grad in grads])
    return {name: value.detach() for name, value in results.items()}


def write(student: str, folder: Path) -> Path:
    """Write a student's patient into a folder; FileExistsError if one exists there."""
    place = folder / FILE
    if place.exists():
        raise FileExistsError(f"{place} exists already; move it away to begin again")
    text = patient(student).source()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(place, text)
    return place
