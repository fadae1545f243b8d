"""Do generated mistakes die? Each solution is changed in one place, and judged for several seeds.

    python benchmarks/mutants.py
    python benchmarks/mutants.py 04.2 --seeds 20

Changed are operators, constants (axes among them), conditions, calls (left out, exchanged, with
other arguments), and what is returned (detached). A mutant that is alive for a seed is listed: it
is equivalent, or the task's domain is too narrow. Writes results/mutants.json.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from typing import Any

from shared import RESULTS, parser, write_result

from nmtcourse.homework.grading import assignments
from nmtcourse.homework.limits import Stopped, undisturbed, within
from nmtcourse.homework.signatures import Draw
from nmtcourse.homework.task import Task
from nmtcourse.homework.trials import tried

RESULT = RESULTS / "mutants.json"
OTHER: dict[type, list[type]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt],
    ast.Eq: [ast.NotEq, ast.GtE],
    ast.NotEq: [ast.Eq, ast.Gt],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.FloorDiv: [ast.Mult],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}
NAMES = [("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("sin", "cos"), ("tril", "triu")]
NAMES += [("any", "all"), ("floor", "ceil"), ("zeros", "ones"), ("sum", "mean"), ("exp", "log")]
SWAPPED = {a: b for pair in NAMES for a, b in (pair, pair[::-1])}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """A node with each of its mistakes."""
    if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp | ast.AugAssign):
        op = node.ops[0] if isinstance(node, ast.Compare) else node.op
        for other in OTHER.get(type(op), []):
            name = "ops" if isinstance(node, ast.Compare) else "op"
            yield changed(node, name, [other(), *node.ops[1:]] if name == "ops" else other())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
        yield ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from (ast.Constant(value) for value in (node.value + 1, node.value - 1))
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield changed(node, "test", ast.UnaryOp(ast.Not(), node.test))
        yield changed(node, "test", ast.Constant(False))
    if isinstance(node, ast.Return) and node.value is not None:
        yield changed(node, "value", ast.Call(ast.Attribute(node.value, "detach"), [], []))
    if isinstance(node, ast.Name | ast.Attribute):
        name = "id" if isinstance(node, ast.Name) else "attr"
        if (other := SWAPPED.get(getattr(node, name))) is not None:
            yield changed(node, name, other)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):  # x.f(...) becomes x
            yield node.func.value
        if len(node.args) == 2:
            yield changed(node, "args", node.args[::-1])
        yield from (
            changed(node, "keywords", [k for k in node.keywords if k is not keyword])
            for keyword in node.keywords
        )
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        yield ast.Pass()


def changed(node: ast.AST, field: str, value: Any) -> ast.AST:
    """A node with another value in a field."""
    other = copy.copy(node)
    setattr(other, field, value)
    return other


def mutants(task: Task) -> Iterator[tuple[str, str]]:
    """What is changed, and the source, for each mistake in the marked parts of a solution."""
    lines = task.source.splitlines()
    inside = [text.count("BEGIN SOLUTION") - text.count("END SOLUTION") for text in lines]
    marked = {n for n in range(1, len(lines) + 1) if sum(inside[:n])}
    seen = {ast.unparse(ast.parse(task.source))}

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return self.new if node is self.old else self.generic_visit(node)

    for old in ast.walk(ast.parse(task.source)):
        for number in range(8 * (getattr(old, "lineno", 0) in marked)):
            tree = ast.parse(task.source)
            same = next(
                n for n in ast.walk(tree) if ast.dump(n, include_attributes=True) == key(old)
            )
            made = [*changes(same)]
            if number >= len(made):
                break
            replace = Replace()
            replace.old, replace.new = same, made[number]
            text = ast.unparse(ast.fix_missing_locations(replace.visit(tree)))
            if text not in seen:
                seen.add(text)
                yield f"{ast.unparse(old)[:60]} -> {ast.unparse(made[number])[:60]}", text


def key(node: ast.AST) -> str:
    """What tells a node and its place from others."""
    return ast.dump(node, include_attributes=True)


def dies(task: Task, answer: Any, seed: int) -> bool:
    """Whether a property finds an answer wrong."""
    with undisturbed():
        for prop in task.properties:
            try:
                with within(5.0):
                    for number in range(prop.draws):
                        if tried(task, prop, answer, Draw(seed, number)).finding is not None:
                            return True
            except Stopped:
                return True
    return False


def measure(task: Task, seeds: range) -> dict[str, Any]:
    """How many mutants of a task die for all seeds, and which live."""
    died, alive = 0, {}
    for about, source in mutants(task):
        try:
            answer = task.build(source)
        except Exception:  # no answer at all
            continue
        if left := [seed for seed in seeds if not dies(task, answer, seed)]:
            alive[about] = left
        died += not left
    return {"task": task.id, "mutants": died + len(alive), "died": died, "alive": alive}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("tasks", nargs="*", metavar="TASK", help="such as 04.2 (default: all)")
    options.add_argument("--seeds", type=int, default=1)
    given = options.parse_args()
    rows = json.loads(RESULT.read_text("utf-8"))["tasks"] if RESULT.exists() else []
    found = {row["task"]: row for row in rows}
    for task in (t for a in assignments().values() for t in a.tasks.values() if not t.uses):
        if not given.tasks or task.id in given.tasks:
            found[task.id] = measure(task, range(given.seeds)) | {"seeds": given.seeds}
            print(found[task.id], flush=True)
            made = {"command": "python benchmarks/mutants.py", "tasks": [*found.values()]}
            write_result(RESULT, made)


if __name__ == "__main__":
    main()
