"""Record a training run at its operations, whatever loop, data code and schedule it has.

The run is the reader's own, from its data to its last evaluation.  A listener of the graph sees
which ids are looked up, which parameters are read, where dropout drops, and the gradient at the
logits; what is no operation (a step of the optimizer or of a scheduler, a clipping, a state dict
that is kept) is told by torch's own hook or by a function put in its place.
"""

from __future__ import annotations

import functools
import gc
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nmtcheck.measure.graph import DROPS, SOFTMAXES, A, Listener, record_graph
from nmtcheck.measure.labels import Rows, read_rows

SOFTMAX_GRADIENTS = {A._log_softmax_backward_data: False, A._softmax_backward_data: True}
LOOKUP_GRADIENTS = {A.embedding_dense_backward: 1, A.index_put: 1, A._index_put_impl_: 1}
MOST = 1_000  # updates that are recorded
LOOKED_AT = 4  # updates whose attention weights are kept
SECONDS = 90.0  # of computing, after which a run is ended
RATE = re.compile(r"_?(rate|lr|learning_rate|(cur|current|last)_(rate|lr))")


class Enough(BaseException):
    """Ends a run."""


@dataclass
class Pass:
    """A backward pass, and the forward pass before it."""

    rows: Rows | None = None  # what counts at the logits
    reads: list[Tensor] = field(default_factory=list)  # tables of ids that were looked up
    dropped: bool = False
    weights: list[Tensor] = field(default_factory=list)  # (..., T, S) of attentions; of few updates


@dataclass
class Update:
    """What came between two steps of the optimizer, and the step."""

    passes: list[Pass]
    rates: list[float]  # of the parameter groups
    default: float  # the rate among the optimizer's defaults
    said: dict[str, float]  # rates and numbers of warm-up updates that objects of the loop hold
    gradient: str  # how the gradient came about: see `compare_gradients`
    clipped: list[bool]  # of each clipping: whether a backward pass came before it
    missing: list[str]  # parameters with a gradient that no optimizer has
    dtypes: set[torch.dtype]  # of the weights


@dataclass
class Run:
    """What was seen of a run."""

    updates: list[Update] = field(default_factory=list)
    left: list[Pass] = field(default_factory=list)  # backward passes that no step used
    tested: list[tuple[int, Tensor]] = field(default_factory=list)  # update, ids read: no training
    tested_dropped: int = 0  # times that dropout dropped where no gradient was wanted
    stepped: dict[int, tuple[int, LRScheduler]] = field(default_factory=dict)  # steps of schedulers
    scheduled: dict[str, float] = field(default_factory=dict)  # warm-ups that schedules are given
    loaded: int = 0  # state dicts that were loaded
    kept: list[str] = field(default_factory=list)  # what is wrong with state dicts that were loaded
    ended: str = ""  # why it was ended
    returned: Any = None


def compare_gradients(found: Tensor, fresh: list[Tensor], before: Tensor | None) -> str:
    """How a gradient at a step came about: '' if of all backward passes since the last one.

    Or 'first', 'last' (of several passes), 'older' (the last step's is still in it), or 'other'.
    """

    def along(x: Tensor, of: Tensor) -> bool:
        size = float(of.norm())
        return size > 0 and float((x - of * (x * of).sum() / size**2).norm()) < 1e-3 * size

    total = sum(fresh, torch.zeros_like(found))
    if not float(total.norm()) and not float(found.norm()):
        return ""
    if along(found, total) and float((found * total).sum()) > 0:
        return ""
    if bool((found.abs() <= total.abs() + 1e-9).all() and (found * total >= 0).all()):
        clamped = found[found.abs() < total.abs() - 1e-9].abs()
        if found.any() and float(clamped.max() - clamped.min()) < 1e-6:
            return ""  # each value clipped
    if len(fresh) > 1:
        if along(found, fresh[-1]):
            return "last"
        if along(found, fresh[0]):
            return "first"
    if before is not None and along(found - total, before):
        return "older"
    return "other" if found.any() else "none"


class RunListener(Listener):
    """Fills a `Run`."""

    def __init__(self) -> None:
        self.run, self.begun = Run(), time.process_time()
        self.reads, self.learned = list[Tensor](), list[Tensor]()  # ids of forward and backward
        self.dropped, self.rows, self.backward = False, list[Rows](), False
        self.weights = list[Tensor]()
        self.passes, self.clipped = list[Pass](), list[bool]()
        self.fresh = dict[int, list[Tensor]]()  # gradients of the followed parameters
        self.previous = dict[int, Tensor]()
        self.followed = weakref.WeakValueDictionary[int, Tensor]()
        self.optimized, self.used = set[int](), dict[int, nn.Parameter]()
        self.snapshots = list[tuple[int, weakref.ref]]()  # update, a tensor of a state dict
        self.depth = 0

    def after(self, kind: Any, args: Any, output: Any) -> Any:
        """Note what counts of an operation."""
        if torch.is_grad_enabled():
            read = (x for x in args if isinstance(x, nn.Parameter) and x.requires_grad)
            self.used.update((id(x), x) for x in read)
        if kind is A.embedding and args[1].dim() > 1:
            self.record_lookup(args[1])
        elif kind is A.index and len(args[1]) == 1 and is_ids(args[1][0]) and args[0].dim() == 2:
            self.record_lookup(args[1][0])
        elif kind in DROPS and (kind is A.native_dropout or output.numel() > 1):
            self.dropped |= torch.is_grad_enabled()
            self.run.tested_dropped += bool(self.run.updates) and not torch.is_grad_enabled()
        elif kind in SOFTMAXES and torch.is_grad_enabled() and output.dim() > 2:
            if len(self.run.updates) < LOOKED_AT and args[1] in (-1, output.dim() - 1):
                self.weights.append(output.detach().clone())
        elif self.backward and kind in SOFTMAX_GRADIENTS and not self.rows:
            table = args[1].clamp_min(1e-30).log() if SOFTMAX_GRADIENTS[kind] else args[1]
            # The classes may stand in any axis: torch's own cross-entropy takes (B, V, T).
            self.rows.append(read_rows(table.movedim(args[2], -1), output.movedim(args[2], -1)))
        elif self.backward and kind in LOOKUP_GRADIENTS:
            ids = args[1][0] if isinstance(args[1], list | tuple) else args[1]
            self.learned += [ids.clone()] if is_ids(ids) else []
        return output

    def record_lookup(self, ids: Tensor) -> None:
        """Note ids that are looked up."""
        if torch.is_grad_enabled():
            self.reads.append(ids.clone())
        elif len(self.run.tested) < 4 * MOST:
            self.run.tested.append((len(self.run.updates), ids.clone()))

    def record_backward(self, original: Callable, *given: Any, **options: Any) -> Any:
        """A backward pass."""
        self.rows, self.learned, self.backward = [], [], True
        try:
            return original(*given, **options)
        finally:
            self.backward = False
            mine = [any(torch.equal(x, y) for y in self.learned) for x in self.reads]
            mine = mine if any(mine) else [True] * len(mine)
            reads = [x for x, own in zip(self.reads, mine, strict=True) if own]
            others = [x for x, own in zip(self.reads, mine, strict=True) if not own]
            self.run.tested += [(len(self.run.updates), x) for x in others]
            rows = self.rows[0] if self.rows else None
            self.passes.append(Pass(rows, reads, self.dropped, self.weights))
            self.reads, self.dropped, self.weights = [], False, []

    def record_clipping(self, original: Callable, *given: Any, **options: Any) -> Any:
        """A clipping of gradients."""
        self.clipped.append(bool(self.passes))
        return original(*given, **options)

    def follow_group(self, original: Callable, optimizer: Any, group: Any) -> Any:
        """Parameters that an optimizer gets."""
        result = original(optimizer, group)
        self.follow_gradients(optimizer)
        return result

    def follow_gradients(self, optimizer: torch.optim.Optimizer) -> bool:
        """Follow some gradients of an optimizer; whether they were followed before."""
        own = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        known = bool(own) and id(own[0]) in self.optimized
        self.optimized |= {id(p) for p in own}
        if not known:
            for p in own[:: max(1, len(own) // 4)]:
                self.followed[id(p)] = p

                def keep_gradient(gradient: Tensor, key: int = id(p)) -> None:
                    self.fresh.setdefault(key, []).append(gradient.detach().clone())

                p.register_hook(keep_gradient)
        return known

    def record_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """A step of an optimizer, about to be made."""
        known = self.follow_gradients(optimizer)
        own = [p for g in optimizer.param_groups for p in g["params"]]
        kinds = list[str]()
        for p in own:
            if id(p) in self.followed and p.grad is not None and known:
                gradient = p.grad.detach().float()
                kinds.append(
                    compare_gradients(gradient, self.fresh.get(id(p), []), self.previous.get(id(p)))
                )
                self.previous[id(p)] = gradient.clone()
            elif id(p) in self.followed and known and id(p) in self.fresh:
                kinds.append("none")
        for p in own:
            self.fresh.pop(id(p), None)
        lost = [p for key, p in self.used.items() if key not in self.optimized]
        missing = [name_of(p) for p in lost if p.grad is not None and bool(p.grad.any())]
        self.run.updates.append(
            Update(
                self.passes,
                [float(g["lr"]) for g in optimizer.param_groups if "lr" in g],
                float(optimizer.defaults.get("lr", 0.0)),
                read_locals_of_callers(),
                max(kinds, key=kinds.count) if kinds else "",
                self.clipped,
                missing,
                {p.dtype for p in own},
            )
        )
        self.passes, self.clipped, self.used = [], [], {}
        if len(self.run.updates) >= MOST:
            raise Enough(f"after {MOST} updates")
        if time.process_time() - self.begun > SECONDS:
            raise Enough(f"after {SECONDS:g} s of computing")

    def record_scheduler_step(self, original: Callable, scheduler: LRScheduler, *given: Any) -> Any:
        """A step of a scheduler."""
        if self.run.updates:  # the first one is made by the scheduler itself
            count = self.run.stepped.get(id(scheduler), (0, scheduler))[0]
            self.run.stepped[id(scheduler)] = count + 1, scheduler
        before = sys.getprofile()
        sys.setprofile(self.read_called)  # a function that computes the rate has a name for it
        try:
            return original(scheduler, *given)
        finally:
            sys.setprofile(before)

    def read_called(self, frame: FrameType, event: str, value: Any) -> None:
        """Note the length of a warm-up that a function of a schedule is given."""
        if event == "call" and "torch" not in frame.f_globals.get("__name__", "").partition(".")[0]:
            for name, number in frame.f_locals.items():
                if type(number) in (int, float) and "warm" in name.lower():
                    self.run.scheduled[name] = float(number)

    def record_state_dict(
        self, original: Callable, module: nn.Module, *given: Any, **options: Any
    ) -> Any:
        """A state dict that is taken; modules within take theirs."""
        self.depth += 1
        try:
            state = original(module, *given, **options)
        finally:
            self.depth -= 1
        if not self.depth and isinstance(state, dict):
            large = max((x for x in state.values() if isinstance(x, Tensor)), key=Tensor.numel)
            self.snapshots.append((len(self.run.updates), weakref.ref(large)))
        return state

    def record_loading(
        self, original: Callable, module: nn.Module, state: Any, *given: Any, **more: Any
    ) -> Any:
        """A state dict that is loaded."""
        now, self.run.loaded = len(self.run.updates), self.run.loaded + 1
        own = {x.data_ptr() for x in (*module.parameters(), *module.buffers())}
        alive = [(at, x()) for at, x in self.snapshots if at < now]
        old = {at for at, x in alive if x is not None and x.data_ptr() in own}
        tensors = [x for x in state.values() if isinstance(x, Tensor) and x.numel()]
        if now and tensors and all(x.data_ptr() in own for x in tensors):
            self.run.kept.append("the tensors that are loaded are the model's own: nothing changes")
        elif len(old) > 1:
            self.run.kept.append(f"{len(old)} state dicts that were kept hold the same tensors")
        return original(module, state, *given, **more)


def name_of(parameter: nn.Parameter) -> str:
    """What a parameter is called where a module holds it: 'Linear.weight'."""
    for table in gc.get_referrers(parameter):
        if isinstance(table, dict):
            names = [name for name, value in table.items() if value is parameter]
            for holder in gc.get_referrers(table):
                holds = getattr(holder, "_parameters", None) is table
                if holds or (isinstance(holder, dict) and holder.get("_parameters") is table):
                    kinds = [holder] if holds else gc.get_referrers(holder)
                    kind = next((x for x in kinds if isinstance(x, nn.Module)), None)
                    if kind is not None and names:
                        return f"{type(kind).__name__}.{names[0]}"
    return f"a parameter of the shape {tuple(parameter.shape)}"


def is_ids(x: Any) -> bool:
    """Whether a tensor may hold ids of sentences."""
    return isinstance(x, Tensor) and x.dim() > 1 and x.dtype in (torch.int64, torch.int32)


def read_locals_of_callers() -> dict[str, float]:
    """The rates, and the lengths of the warm-up, that the loop's objects and names hold."""
    found = dict[str, float]()
    frame: FrameType | None = sys._getframe(2)
    for _ in range(12):
        if frame is None:
            break
        inner = "torch" in frame.f_globals.get("__name__", "").partition(".")[0]
        holder = frame.f_locals.get("self")
        tables = [] if inner else [frame.f_locals, frame.f_globals]
        if not inner and not isinstance(holder, nn.Module | torch.optim.Optimizer | LRScheduler):
            tables.append(getattr(holder, "__dict__", {}))
        for table in tables:
            for name, value in list(table.items()):
                if type(value) in (int, float) and (RATE.fullmatch(name) or "warm" in name.lower()):
                    found[name] = float(value)
        frame = frame.f_back
    return found


def patch_everywhere(original: Any, wrapper: Any) -> list[tuple[dict, str]]:
    """Put a wrapper in the place of a function in every module; the places."""
    places = list[tuple[dict, str]]()
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name, value in list(names.items()) if isinstance(names, dict) else ():
            if value is original:
                names[name] = wrapper
                places.append((names, name))
    return places


@contextmanager
def recording() -> Iterator[Run]:
    """Record what is trained while the block runs; the block may be ended early."""
    listener = RunListener()
    methods = [
        (torch.optim.Optimizer, "add_param_group", listener.follow_group),
        (LRScheduler, "step", listener.record_scheduler_step),
        (nn.Module, "state_dict", listener.record_state_dict),
        (nn.Module, "load_state_dict", listener.record_loading),
    ]
    functions = [
        (torch.autograd.backward, listener.record_backward),
        (nn.utils.clip_grad_norm_, listener.record_clipping),
        (nn.utils.clip_grad_value_, listener.record_clipping),
    ]

    def wrapped(original: Callable, wrapper: Callable) -> Callable:
        @functools.wraps(original)
        def call(*given: Any, **options: Any) -> Any:
            return wrapper(original, *given, **options)

        return call

    with ExitStack() as stack:
        for owner, name, wrapper in methods:
            original = getattr(owner, name)
            setattr(owner, name, wrapped(original, wrapper))
            stack.callback(setattr, owner, name, original)
        for original, wrapper in functions:
            for names, name in patch_everywhere(original, wrapped(original, wrapper)):
                stack.callback(names.__setitem__, name, original)
        stack.enter_context(register_optimizer_step_pre_hook(listener.record_step))
        try:
            with record_graph(listener=listener, keep=False):
                yield listener.run
        except Enough as end:
            listener.run.ended = str(end)
        listener.run.left = listener.passes
        listener.run.tested += [(len(listener.run.updates), x) for x in listener.reads]
