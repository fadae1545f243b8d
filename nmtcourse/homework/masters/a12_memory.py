"""Homework 12: training memory, a ring all-reduce, batches that fit into memory."""

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import holds, refuses, short
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.signatures import Made
from nmtcourse.homework.task import Assignment

homework = Assignment(
    "12",
    "memory",
    "Memory, and more than one device",
    opening="""
    No GPU is needed: you calculate the memory of a training run, write the algorithm by which
    devices add up their gradients, and build batches as large as memory allows.
    """,
    imports=(
        "import math\nfrom collections.abc import Callable\n\n"
        "import torch\nfrom torch import Tensor, nn"
    ),
)


def some_model(draw: Draw, linear: bool = False) -> nn.Module:
    """Layers of different types: frozen, shared, with buffers, or none at all."""
    a, b = draw.sizes(2)
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    model = nn.Sequential()
    if linear:  # with biases that are equal, but not shared
        model = nn.Sequential(nn.Linear(a, b), nn.Linear(b, a)).to(draw.dtype)
        return model.apply(lambda part: isinstance(part, nn.Linear) and part.bias.data.zero_())
    for number in range(draw.size(1, 4)):
        inner = nn.Sequential(nn.Linear(a, b), nn.Sequential(nn.BatchNorm1d(b)))
        layer = draw.one_of([nn.Linear(a, b), nn.BatchNorm1d(a), inner, nn.GRU(a, b)])
        frozen = draw.choose(5 if number else 4)  # 1 or 2: every other parameter; 4: all
        for place, parameter in enumerate(layer.to(draw.one_of(kinds)).parameters()):
            parameter.requires_grad_(frozen not in (1 + place % 2, 4))
        model.append(layer)
    if len(model) > 1 and draw.one_of([False, True]):
        model.append(nn.ModuleDict({"again": model[0]}))  # a layer that is used twice
        model.weight = next(model[1].parameters())  # a weight under two names
    if draw.one_of([False, True]):
        ids = draw.one_of([torch.arange(a), torch.arange(a).expand(3, a), torch.arange(2 * a)[::2]])
        model.register_buffer("ids", ids, persistent=draw.one_of([True, False]))
        if len(model) > 1:
            model[1].register_buffer("ids_of_all", ids)  # a buffer under two names
    return model.to(draw.one_of(["cpu", "cpu", "cpu", "meta"]))


@homework.task(
    "easy",
    "The fixed memory of training",
    """
    Return the number of bytes that a model needs during training with Adam, without activations:
    its parameters, their gradients, and Adam's two moments, each with the size and dtype of its
    parameter. A tensor under several names counts once. A frozen parameter (`requires_grad` is
    False) has no gradient and no moments; not all are frozen. Buffers count as well. The model may
    be on any device, even `meta`.
    """,
    hints=(
        "How many tensors of the size of a weight exist after one update?",
        "`model.parameters()` yields a shared tensor once; `element_size()` is in bytes.",
    ),
    read="notebook 12, section 1",
    mistakes=r"""
    Shared tensors are counted for each use: the state_dict lists them twice.
        model.parameters() => [t for n, t in model.named_parameters(remove_duplicate=False)]
    The gradients are missing.
        (4 if p.requires_grad else 1) => (3 if p.requires_grad else 1)
    One of the three tensors is missing: a gradient or one of Adam's two moments.
        (4 if p.requires_grad else 1) => (2 if p.requires_grad else 1)
    Frozen parameters are counted with gradients and moments.
        (4 if p.requires_grad else 1) => 4
    Frozen parameters are missing.
        (4 if p.requires_grad else 1) => (4 if p.requires_grad else 0)
    Numbers are counted, not bytes.
        p.numel() * p.element_size() => p.numel()
        b.numel() * b.element_size() => b.numel()
    Every number is counted as 4 bytes, whatever its dtype.
        p.element_size() => 4
        b.element_size() => 4
    The buffers are missing.
        held += sum( => 0 * sum(
    """,
    signature={"model": Made(some_model)},
)
def training_bytes(model: nn.Module) -> int:
    """Bytes of parameters, gradients, Adam's moments and buffers."""
    ### BEGIN SOLUTION
    held = 0
    for p in model.parameters():
        held += p.numel() * p.element_size() * (4 if p.requires_grad else 1)
    held += sum(b.numel() * b.element_size() for b in model.buffers())
    return held
    ### END SOLUTION


@homework.check(
    training_bytes,
    "List all tensors that exist after one update.",
    worth=2,
    model=Made(partial(some_model, linear=True)),
)
def is_what_adam_holds(answer, model):
    """The result is the memory in use after an update with Adam, of linear layers."""
    yield "the number of bytes", int(answer(model))


@homework.check(
    training_bytes,
    "Which tensors are shared, which are frozen, and which are not weights?",
    draws=96,
    whole=True,
)
def knows_special_tensors(answer, model):
    """Shared tensors, frozen ones and buffers are counted correctly, each with its own type."""
    yield "the number of bytes", int(answer(model))


def some_vectors(draw: Draw, whole: bool = False) -> list[Tensor]:
    """Vectors of some devices, of floating-point or large whole numbers."""
    devices, size = draw.size(1 + whole, 12 - 6 * whole), draw.named("N")
    size *= devices if whole else 1
    kind = draw.choose(4) == 3
    make = partial(draw.ids, 0, 2**40) if kind else draw.normal
    return [make(size) for _ in range(devices)]


class Ring:
    """Pass messages on by one device, unless broken, and count the numbers sent."""

    def __init__(self, broken: bool = False) -> None:
        self.broken, self.calls, self.numbers = broken, 0, 0

    def __call__(self, messages: list[Tensor]) -> list[Tensor]:
        sizes = {int(m.numel()) for m in messages}
        holds(len(sizes) == 1, f"messages of {sorted(sizes)} numbers in one exchange", "equal ones")
        self.calls += 1
        self.numbers += sizes.pop()
        return [messages[r - 1] * (not self.broken) for r in range(len(messages))]


@homework.task(
    "medium",
    "A ring all-reduce",
    """
    Each of R devices has a vector (N,), and each must end with the sum of all. The devices form a
    ring: `exchange(messages)` sends `messages[r]` from device r to device r + 1, and from the last
    to the first, and returns what each has received. Return the list of the R sums, which may share
    memory. Each device may send at most $2 (R - 1) \\lceil N / R \\rceil$ numbers, in $2 (R - 1)$
    exchanges of messages of equal length: split the vectors into R chunks, add up in the first
    half, and pass the finished sums around in the second. N need not be a multiple of R. Do not
    change the given vectors.
    """,
    hints=(
        "Draw three devices with three chunks. After R - 1 additions, which has which sum?",
        "In step i, device r sends chunk (r - i) mod R and adds to chunk (r - i - 1) mod R.",
    ),
    read="notebook 12b, section 1",
    mistakes=r"""
    The finished sums are not passed around.
        pieces[r][(r - step) % devices] = got[r] => got[r]
    Finished sums are added again instead of replacing the old chunk.
        pieces[r][(r - step) % devices] = got[r] => pieces[r][(r - step) % devices] += got[r]
    One step is missing: the last device's part is lost.
        steps = range(devices - 1) => steps = range(devices - 2)
    The mean is returned, not the sum.
        torch.cat(own)[:size] => torch.cat(own)[:size] / devices
    Whole vectors are sent: R times as much as necessary.
        = [list(v.chunk(devices)) for v in padded] => = [[v / devices] * devices for v in padded]
        torch.cat(own)[:size] => own[0][:size]
    The same chunk is sent in every step.
        sent = [own[(r - step) % devices] => sent = [own[r % devices]
    What a device receives is added to the wrong chunk.
        at = (r - step - 1) % devices => at = (r - step) % devices
    The numbers that do not fill a chunk are lost.
        width = math.ceil(size / devices) => width = size // devices
        pad(v, width * devices - size) => v[: width * devices]
    """,
    signature={"vectors": Made(some_vectors), "exchange": Made(lambda draw: Ring())},
)
def ring_all_reduce(
    vectors: list[Tensor], exchange: Callable[[list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """The sum of all vectors on each device; data moves only through `exchange`."""

    ### BEGIN SOLUTION
    def pad(v: Tensor, missing: int) -> Tensor:
        return torch.cat([v, v.new_zeros(missing)])

    devices, size = len(vectors), len(vectors[0])
    width = math.ceil(size / devices)
    padded = [pad(v, width * devices - size) for v in vectors]
    pieces = [list(v.chunk(devices)) for v in padded]
    steps = range(devices - 1)
    for step in steps:
        sent = [own[(r - step) % devices] for r, own in enumerate(pieces)]
        got = exchange(sent)
        for r in range(devices):
            at = (r - step - 1) % devices
            pieces[r][at] = pieces[r][at] + got[r]
    for step in steps:
        sent = [own[(r + 1 - step) % devices] for r, own in enumerate(pieces)]
        got = exchange(sent)
        for r in range(devices):
            pieces[r][(r - step) % devices] = got[r]
    return [torch.cat(own)[:size] for own in pieces]
    ### END SOLUTION


homework.promise(
    ring_all_reduce,
    "Every device has the sum of all vectors, where N is a multiple of R.",
    "Follow one number around a ring of three devices.",
    worth=2,
    vectors=Made(partial(some_vectors, whole=True)),
)
homework.promise(
    ring_all_reduce,
    "N may be smaller than R or not a multiple of it, and R may be 1.",
    "What happens to the numbers after the last full chunk?",
)


@homework.check(ring_all_reduce, "How long is a message, and how many are there?", draws=16)
def sends_no_more_than_it_must(answer, vectors, draw):
    """No device sends more than 2 (R - 1) chunks, in as many exchanges, or uses other data."""
    ring, devices, size = Ring(), 1 + len(vectors), len(vectors[0])
    answer([*vectors, vectors[0]], ring)
    most, where = 2 * (devices - 1) * math.ceil(size / devices), f"R = {devices}, N = {size}"
    holds(ring.numbers <= most, f"{ring.numbers} numbers sent with {where}", f"{most}")
    given = [1 + draw.normal(size).abs() for _ in range(devices)]
    found = torch.stack(list(answer(given, Ring(broken=True))))
    alike = (found == found[0]).all() or torch.allclose(found[0], sum(given))
    holds(not alike, "all devices agree in a broken ring", "sums of what each device received")


@homework.task(
    "hard",
    "Batches that fit into memory",
    """
    `lengths` (N, 2) contains the source and target length of each sentence. A batch of n sentences
    is padded to its longest source s and its longest target t, and needs `cost(n, s, t)` bytes,
    which never falls as an argument grows. Return batches, as lists of sentence indices, such that
    each sentence is in exactly one and none costs more than `capacity`. On a corpus use few
    batches: at most 40 % more than if you sort by the longer of both lengths and fill one batch
    after the other. A sentence that does not fit alone raises a `ValueError` that names its index.
    """,
    hints=(
        "What should the sentences of a batch have in common?",
        "Sort, and fill a batch until the next sentence would exceed the capacity.",
    ),
    read="notebook 12, section 3",
    mistakes=r"""
    The sentences keep the given order: short ones are padded to long ones.
        sorted(range(len(lengths)), key=lambda i: (max(lengths[i]), *lengths[i]))
        => range(len(lengths))
    The last batch is lost.
        return [*batches, batch] if batch else batches => return batches
    The sentence that no longer fitted is lost.
        batch, longest = [i], own => batch, longest = [], (0, 0)
    The batch is closed only after it is too large.
        and cost(len(batch) + 1, *grown) > capacity: => and cost(len(batch), *longest) > capacity:
    The cost uses the newest sentence, not the longest source and target.
        grown = max(longest[0], own[0]), max(longest[1], own[1]) => grown = own
    Only the source is considered; long targets exceed the capacity.
        = max(longest[0], own[0]), max(longest[1], own[1]) => = max(longest[0], own[0]), 1
    Each sentence is a separate batch.
        if batch and cost(len(batch) + 1, *grown) > capacity: => if batch:
    A sentence that does not fit alone is put into a batch.
        if cost(1, *own) > capacity: => if False:
    A sentence that does not fit alone is silently left out.
        raise ValueError(f"sentence {i} needs {cost(1, *own)} bytes alone") => continue
    """,
)
def fitting_batches(
    lengths: Tensor, cost: Callable[[int, int, int], float], capacity: float
) -> list[list[int]]:
    """Few batches that cost at most `capacity` each and contain every sentence once."""
    ### BEGIN SOLUTION
    lengths = lengths.tolist()
    order = sorted(range(len(lengths)), key=lambda i: (max(lengths[i]), *lengths[i]))
    batches, batch, longest = [], [], (0, 0)
    for i in order:
        own = tuple(lengths[i])
        if cost(1, *own) > capacity:
            raise ValueError(f"sentence {i} needs {cost(1, *own)} bytes alone")
        grown = max(longest[0], own[0]), max(longest[1], own[1])
        if batch and cost(len(batch) + 1, *grown) > capacity:
            batches.append(batch)
            batch, longest = [i], own
        else:
            batch, longest = [*batch, i], grown
    return [*batches, batch] if batch else batches
    ### END SOLUTION


def quadratic(n: int, s: int, t: int) -> float:
    """Like a Transformer: a term for each token, and one for each pair of tokens."""
    given = isinstance(n, Integral) and isinstance(s, Integral) and isinstance(t, Integral)
    holds(given, f"cost({n!r}, {s!r}, {t!r})", "whole numbers, not tensors")
    return n * (40 * s + 90 * t + 2 * s * s + 3 * t * t + s * t)


def steep(n: int, s: int, t: int) -> float:
    """A cost in which the target matters most, and which grows faster than the batch."""
    return n * s * t**2 + 40 * n * n


def corpus(draw: Draw, size: int) -> Tensor:
    """Lengths like those of a corpus: many short sentences, a few long ones."""
    chance = draw.generator
    source = (3 + 9 * torch.randn(size, generator=chance).abs()).long()
    source += 25 * (torch.randn(size, generator=chance) > 1.8)
    target = (source * (1 + 0.25 * torch.randn(size, generator=chance))).long().clamp(min=2)
    return draw.laid(torch.stack([source, target], 1))


def planned(answer, lengths: Tensor, cost: Callable, capacity: float) -> list[list[int]]:
    """The batches of an answer without empty ones."""
    found = [list(batch) for batch in answer(lengths, cost, capacity) if len(batch)]
    whole = all(isinstance(i, Integral) for batch in found for i in batch)
    holds(whole, f"the batch {short(found[:1])}", "whole numbers, not tensors")
    return [[int(i) for i in batch] for batch in found]


def asked(draw: Draw) -> tuple[Tensor, Callable, float]:
    """Lengths, a cost, and a capacity that the most expensive sentence may use up."""
    lengths, cost = corpus(draw, draw.sizes(1, 1, 30)[0]), draw.one_of([quadratic, steep])
    most = max(cost(1, *pair) for pair in lengths.tolist())
    return lengths, cost, most * draw.one_of([1, 1.5, 8])


@homework.check(fitting_batches, "Follow the sentences at the boundary between two batches.")
def holds_every_sentence_once(answer, draw: Draw):
    """Every sentence is in exactly one batch, including one that needs the whole capacity."""
    lengths, cost, capacity = asked(draw)
    flat = sorted(i for batch in planned(answer, lengths, cost, capacity) for i in batch)
    wanted = f"0 to {len(lengths) - 1}"
    holds(flat == [*range(len(lengths))], f"the sentences {short(flat)} in batches", wanted)


@homework.check(
    fitting_batches, "What does a batch cost with its longest source and longest target?", worth=2
)
def keeps_to_the_memory(answer, draw: Draw):
    """No batch costs more than the capacity, for two kinds of cost."""
    lengths, cost, capacity = asked(draw)
    for batch in planned(answer, lengths, cost, capacity):
        s, t = lengths[batch].amax(0).tolist()
        spent, wanted = cost(len(batch), s, t), f"at most {capacity:,}"
        holds(spent <= capacity, f"a batch of {len(batch)} costs {spent:,.0f}", wanted)


@homework.check(
    fitting_batches, "Which sentences share a batch, and how full is it?", draws=3, shrinks=False
)
def makes_few_batches(answer, draw: Draw):
    """There are at most 40 % more batches than sorting and filling gives."""
    lengths = corpus(draw, 600)
    found = len(planned(answer, lengths, quadratic, 60_000))  # first: see `answering`
    good = len(fitting_batches(lengths, quadratic, 60_000))
    holds(found <= 1.4 * good, f"{found} batches", f"at most {int(1.4 * good)}")


@homework.check(
    fitting_batches, "What should happen to a sentence that exceeds the capacity alone?", draws=8
)
def names_what_does_not_fit(answer, draw: Draw):
    """A sentence that does not fit alone raises a ValueError that names its index."""
    lengths = corpus(draw, draw.size(1, 40))
    place = draw.one_of([len(lengths) - 1, 0, len(lengths) // 2])
    lengths[place] = torch.tensor(draw.one_of([[500, 400], [900, 3], [3, 900]]))
    capacity = quadratic(1, *lengths[place].tolist()) - draw.one_of([1, 1000])
    what = f"a sentence that does not fit, number {place} of {len(lengths)}"
    refuses(answer, (lengths, quadratic, capacity), what, place)


@homework.question(
    "Bytes per parameter",
    options=["4 bytes.", "8 bytes.", "16 bytes."],
    hints=(
        "Divide the bytes of a model by its parameters.",
        "Weight, gradient, and Adam's two moments.",
    ),
    read="notebook 12, section 1",
    uses=(training_bytes,),
)
def how_many_bytes_a_parameter(training_bytes) -> str:
    """
    How many bytes does a float32 parameter need during training with Adam, according to **your**
    function?
    """
    model = nn.Linear(100, 100)
    each = training_bytes(model) / sum(p.numel() for p in model.parameters())
    return {4: "A", 8: "B", 16: "C"}.get(round(each), "?")
