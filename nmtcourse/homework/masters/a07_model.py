"""Homework 07: the residual connection, the number of parameters, the whole Transformer."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import gradients, holds, short
from nmtcourse.homework.inputs import Draw
from nmtcourse.homework.signatures import Float, Made, OneOf, Size
from nmtcourse.homework.task import Assignment
from nmtlib.model import Transformer, TransformerConfig
from nmtlib.model.attention import padding_mask, target_mask
from nmtlib.model.embeddings import Positions, TokenEmbedding
from nmtlib.model.layers import DecoderLayer, EncoderLayer

homework = Assignment(
    "07",
    "model",
    "The full model",
    opening="""
    You write the wrapper of every sub-layer, count a model's parameters without building it, and
    assemble the whole Transformer from its parts.
    """,
    imports=(
        "import math\nfrom collections.abc import Callable\n\nimport torch\n"
        "from torch import Tensor, nn\n\nfrom nmtlib.model import TransformerConfig"
    ),
)


def some_config(draw: Draw, large: int = 16_000, **given) -> TransformerConfig:
    """A config; its norm, positions and tying are drawn if they are not given."""
    vs, vt, d, f, longest = draw.sizes(5, 4, 40, large=large)
    d = min(d + draw.one_of([0, 0, 0, large]), 16_000)  # more than 32 bits can count
    heads, encoder, decoder = draw.one_of([1, 2, 4]), draw.size(1, 3), draw.size(1, 3)
    chosen = {
        "norm": draw.one_of(["post", "pre"]),
        "positions": draw.one_of(["sinusoidal", "learned"]),
        "tied": draw.one_of(["none", "target", "all"]),
    } | given
    return TransformerConfig(
        vt if chosen["tied"] == "all" else vs,
        vt,
        d_model=4 * d if chosen["positions"] == "sinusoidal" else heads * d,
        n_heads=heads,
        d_ff=f,
        n_encoder_layers=encoder,
        n_decoder_layers=decoder,
        max_length=longest,
        **chosen,
    )


class SubLayer:
    """A function with a matrix that counts its calls."""

    def __init__(self, draw: Draw):
        size = draw.named("D")
        self.weights, self.calls = [draw.normal(size, size).requires_grad_()], 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.tanh(x @ self.weights[0])


@homework.task(
    "easy",
    "The residual connection",
    """
    Write the residual connection with LayerNorm and dropout around a sub-layer f. With
    `norm="post"`, as in the paper, the result is LayerNorm(x + dropout(f(x))); with `norm="pre"` it
    is x + dropout(f(LayerNorm(x))). In training, dropout sets each number of f's result to zero
    with probability `dropout`, which is below 1, and divides the others by 1 - `dropout`. Call f
    once. `nn.LayerNorm` and `nn.Dropout` are allowed.
    """,
    hints=(
        "To which of x, f's result and their sum do LayerNorm and dropout apply?",
        "Write the two formulas as two return statements, and read them aloud.",
    ),
    read="notebook 07, sections 3, 4 and 5",
    mistakes=r"""
    Pre and post are exchanged.
        if self.kind == "pre": => if self.kind == "post":
    The residual connection is missing: x is not added.
        return x + self.dropout(f(self.norm(x))) => return self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x))) => return self.norm(self.dropout(f(x)))
    The normalised input is added, not x itself.
        return x + self.dropout(f(self.norm(x))) => x = self.norm(x); return x + self.dropout(f(x))
    Dropout applies to the sum, so it also affects x.
        return x + self.dropout(f(self.norm(x))) => return self.dropout(x + f(self.norm(x)))
        return self.norm(x + self.dropout(f(x))) => return self.norm(self.dropout(x + f(x)))
    There is no dropout.
        nn.Dropout(dropout) => nn.Identity()
    Dropout is active in evaluation mode.
        nn.Dropout(dropout) => lambda x: nn.functional.dropout(x, dropout, True)
    The probability of keeping a number is used as that of dropping it.
        nn.Dropout(dropout) => nn.Dropout(1 - dropout)
    Post-norm normalises only f's result and adds x afterwards.
        self.norm(x + self.dropout(f(x))) => x + self.norm(self.dropout(f(x)))
    f is called twice.
        return x + self.dropout(f(self.norm(x))) => f(x); return x + self.dropout(f(self.norm(x)))
    """,
    signature={"d_model": Size("D"), "dropout": OneOf(0.0, 0.5), "norm": OneOf("pre", "post")}
    | {"x": Float("B S D"), "f": Made(SubLayer, half=True)},
    listed=False,
)
class Residual(nn.Module):
    """A sub-layer f with residual connection, norm ("pre" or "post") and dropout."""

    def __init__(self, d_model: int, dropout: float, norm: str):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm, self.dropout, self.kind = nn.LayerNorm(d_model), nn.Dropout(dropout), norm
        ### END SOLUTION

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """x (B, S, D) -> (B, S, D)."""
        ### BEGIN SOLUTION
        if self.kind == "pre":
            return x + self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x)))
        ### END SOLUTION


homework.promise(
    Residual,
    "Without dropout, or in evaluation mode, post is LayerNorm(x + f(x)), pre x + "
    "f(LayerNorm(x)), with their gradients; f is called once.",
    "Compare both formulas with your code.",
    worth=3,
)


@homework.check(
    Residual, "To which of the three does dropout apply?", worth=2, draws=8, again=False
)
def drops_what_f_brings(answer, norm, draw):
    """In training dropout leaves x alone; a share p of f's numbers is 0, others are / (1 - p)."""
    p, (x, brought, towards) = draw.one_of([0.1, 0.4]), torch.randn(3, 4, 100, 8).unbind()
    module = answer(8, p, norm).eval().train()

    def kept() -> Tensor:  # what dropout multiplies f's numbers by: the slope of f's by that of x
        given = x.clone().requires_grad_(), brought.clone().requires_grad_()
        own, through = gradients(module(given[0], lambda y: given[1]), towards, *given)
        return through / own

    found, again = kept(), kept()
    rest = found[found != 0]
    measured = f"for p = {p} numbers of f become {short(rest.unique()[:3])}"
    right = len(rest) and float((rest - 1 / (1 - p)).abs().max()) < 0.02
    holds(right, measured, f"{1 / (1 - p):.2f} or 0")
    dropped, share = found == 0, float((found == 0).float().mean())
    measured = f"{100 * share:.0f} % of f's numbers are dropped"
    holds(abs(share - p) < 0.05, measured, f"{100 * p:.0f} %")
    together = int(dropped.all(1).sum() + dropped.all(2).sum())
    what = f"{together} rows or columns are dropped together"
    holds(together < 8, what, "single numbers, and hardly ever a whole row")
    holds(not torch.equal(found, again), "the same numbers are dropped in every call", "others")
    same_rows = torch.equal(dropped[0], dropped[1]) or torch.equal(dropped[:, 0], dropped[:, 1])
    holds(not same_rows, "the same numbers are dropped in all sentences or words", "others")
    with torch.no_grad():
        first, second = (module(x, lambda y: brought) for _ in range(2))
    what = "under torch.no_grad nothing is dropped in training"
    holds(not torch.equal(first, second), what, "dropout in training, whether or not it learns")


@homework.task(
    "medium",
    "Count the parameters",
    """
    `count(config)` returns the number of trained parameters of the course's `Transformer` for this
    `TransformerConfig`, computed from the config alone: do not build a model. Every linear layer
    has a bias. Three options matter: `norm="pre"` adds one final LayerNorm to the encoder and one
    to the decoder; `positions="learned"` adds a table of `max_length` rows for the source and one
    for the target; `tied="target"` shares one tensor between target embedding and output matrix,
    and `tied="all"` with the source embedding as well.
    """,
    hints=(
        "Start with four lines: an attention, a feed-forward block, a LayerNorm, an embedding.",
        "A shared tensor counts once; the output always keeps its bias.",
    ),
    read="notebook 07, section 8",
    sealed=("torch.nn.modules", "nmtlib.model.transformer", "nmtlib.model.layers"),
    signature={"config": Made(some_config)},
    mistakes=r"""
    A tied tensor is counted once for each use.
        tables = {"none": 2 * vt + vs, "target": vt + vs, "all": vt}[c.tied] => tables = 2 * vt + vs
    The biases of the four projections of attention are missing.
        4 * (d * d + d) => 4 * d * d
    A feed-forward block has two biases, of sizes F and D.
        2 * d * f + f + d => 2 * d * f
    A LayerNorm has two vectors, a gain and a shift.
        norm = 2 * d => norm = d
    The decoder's cross-attention is missing.
        2 * attention + feed + 3 * norm => attention + feed + 3 * norm
    A decoder layer has three norms, not two.
        feed + 3 * norm => feed + 2 * norm
    The two final LayerNorms of a pre-norm model are missing.
        2 * norm if c.norm == "pre" else 0 => 0
    Each head has matrices of full size: H times too many.
        4 * (d * d + d) => 4 * c.n_heads * (d * d + d)
    The bias of the output is missing.
        tables * d + vt => tables * d
    Learned position tables are missing.
        2 * c.max_length * d if c.positions == "learned" else 0 => 0
    Sinusoidal tables are counted, but they are not trained.
        2 * c.max_length * d if c.positions == "learned" else 0 => 2 * c.max_length * d
    """,
)
def count(config: TransformerConfig) -> int:
    """The number of trained parameters of a Transformer with this config."""
    ### BEGIN SOLUTION
    c, d, f = config, config.d_model, config.d_ff
    vs, vt = c.source_vocab_size, c.target_vocab_size
    attention, feed = 4 * (d * d + d), 2 * d * f + f + d
    norm = 2 * d
    layers = c.n_encoder_layers * (attention + feed + 2 * norm)
    layers += c.n_decoder_layers * (2 * attention + feed + 3 * norm)
    closing = 2 * norm if c.norm == "pre" else 0
    places = 2 * c.max_length * d if c.positions == "learned" else 0
    tables = {"none": 2 * vt + vs, "target": vt + vs, "all": vt}[c.tied]
    return layers + closing + places + tables * d + vt
    ### END SOLUTION


homework.promise(
    count,
    "With post-norm, fixed positions and separate tables the count is the model's.",
    "Compare with `model.parameter_table()`, part by part.",
    worth=2,
    config=Made(partial(some_config, norm="post", positions="sinusoidal", tied="none")),
)
homework.promise(
    count,
    "Norm, positions and tying are counted as built, alone and together.",
    "Which options of the config add parameters, and which save some?",
    worth=2,
)


def a_model(draw: Draw) -> TransformerConfig:
    """The config of a model without dropout."""
    config = some_config(draw, 1000, tied="none", dropout=0.0)
    return replace(config, d_model=config.n_heads * draw.one_of([4, 2]), max_length=20)


def some_ids(draw: Draw, known: dict, side: str) -> Tensor:
    """Sentences of one side, some of them padded."""
    batch, length = min(draw.named("B"), 9), min(draw.named(side[0]), 20)
    ids = draw.ids(3, getattr(known["config"], f"{side}_vocab_size"), batch, length)
    for row in range(len(ids) * draw.choose(2)):
        ids[row, draw.random.randint(0, length) :] = 0
    return ids


@homework.task(
    "hard",
    "The whole Transformer",
    """
    Assemble the Transformer from the given parts. Name its parts as the course does, so that the
    weights of a course model fit yours: `source_embedding`, `target_embedding`, `source_positions`,
    `target_positions`, `dropout`, `encoder` and `decoder` (each a `ModuleList` of layers),
    `encoder_norm` and `decoder_norm` (a LayerNorm with `norm="pre"`, otherwise `nn.Identity()`),
    and `output`. The vocabulary tables are separate (`tied="none"`). Source ids (B, S) and target
    ids (B, T) give logits (B, T, V); PAD is 0. Dropout applies to embeddings plus positions.
    """,
    hints=(
        "Write the path of a source word to the memory first, then that of a target word.",
        "Each decoder layer takes four things: x, the memory, the target mask, the source mask.",
    ),
    read="notebook 07, section 1",
    given="""
    from nmtlib.model.embeddings import Positions, TokenEmbedding   # (V, D); (D, max_length, kind)
    from nmtlib.model.layers import DecoderLayer, EncoderLayer      # (config); see show_source
    from nmtlib.model.attention import padding_mask, target_mask        # (ids) -> mask
    """,
    mistakes=r"""
    All layers of a stack are the same object: they share their weights.
        EncoderLayer(c) for _ in range(c.n_encoder_layers) => [EncoderLayer(c)] * c.n_encoder_layers
    The layers are in a plain list, where PyTorch does not find them.
        nn.ModuleList(EncoderLayer(c) for _ in range(c.n_encoder_layers))
        => list(EncoderLayer(c) for _ in range(c.n_encoder_layers))
    The decoder sees the future: its mask only hides padding.
        target_mask(target), mask => padding_mask(target), mask
    Cross-attention attends to padding: it lacks the source mask.
        target_mask(target), mask => target_mask(target), None
    The encoder attends to padding: it lacks its mask.
        memory = layer(memory, mask) => memory = layer(memory)
    The encoder layers are skipped: the memory is the embedded source.
        memory = layer(memory, mask) => layer(memory, mask)
    The final LayerNorms of the two stacks are missing.
        memory = self.encoder_norm(memory) => pass
        self.output(self.decoder_norm(x)) => self.output(x)
    The target has no positions.
        self.target_positions(self.target_embedding(target)) => self.target_embedding(target)
    The result is a softmax, not logits: the loss would apply softmax again.
        self.output(self.decoder_norm(x)) => self.output(self.decoder_norm(x)).softmax(-1)
    Dropout is not applied to embeddings plus positions.
        self.dropout(self.source_positions(self.source_embedding(source)))
        => self.source_positions(self.source_embedding(source))
        self.dropout(self.target_positions(self.target_embedding(target)))
        => self.target_positions(self.target_embedding(target))
    """,
    signature={
        "config": Made(a_model),
        "source": Made(partial(some_ids, side="source"), needs=True),
        "target": Made(partial(some_ids, side="target"), needs=True),
    },
)
class OwnTransformer(nn.Module):
    """The encoder-decoder Transformer: source (B, S), target (B, T) -> logits (B, T, V)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        ### BEGIN SOLUTION
        c, pre = config, config.norm == "pre"
        self.source_embedding = TokenEmbedding(c.source_vocab_size, c.d_model)
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_model)
        self.source_positions = Positions(c.d_model, c.max_length, c.positions)
        self.target_positions = Positions(c.d_model, c.max_length, c.positions)
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(c) for _ in range(c.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(c) for _ in range(c.n_decoder_layers))
        self.encoder_norm = nn.LayerNorm(c.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(c.d_model) if pre else nn.Identity()
        self.output = nn.Linear(c.d_model, c.target_vocab_size)
        ### END SOLUTION

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        mask = padding_mask(source)
        memory = self.dropout(self.source_positions(self.source_embedding(source)))
        for layer in self.encoder:
            memory = layer(memory, mask)
        memory = self.encoder_norm(memory)
        x = self.dropout(self.target_positions(self.target_embedding(target)))
        for layer in self.decoder:
            x = layer(x, memory, target_mask(target), mask)
        return self.output(self.decoder_norm(x))
        ### END SOLUTION


@homework.check(
    OwnTransformer,
    "Which step differs? Compare the memory of both models first.",
    **{"worth": 3, "draws": 8, "again": False, "whole": True},
)
def computes_the_same(answer, config, source, target, draw):
    """The logits and gradients are those of the course's model, for both norms and both kinds of
    positions, with padding or without.
    """
    start, own = (
        Transformer(config).to(draw.dtype).state_dict(),
        answer(config).to(draw.dtype).eval(),
    )
    own.load_state_dict({n: w + 0.1 * draw.normal(*w.shape).to(w.dtype) for n, w in start.items()})
    for ids in ((source, target), tuple(x.flip(0, 1).clamp(min=3) for x in (source, target))):
        logits = own(*ids)
        yield f"a logit for a source {short(ids[0])}", logits, 1e-4
    weights = [weight for _, weight in sorted(own.named_parameters())]
    yield "the gradients", gradients(logits, draw.normal(*logits.shape), *weights), 1e-3


@homework.check(
    OwnTransformer,
    "Where does dropout apply, besides inside the layers?",
    draws=4,
    again=False,
    inside=True,
)
def drops_in_training(answer, config):
    """In training, dropout applies to embeddings plus positions, on both sides."""
    own = answer(replace(config, dropout=0.4))
    ids = torch.full((4, 15), 3)
    for side in ("encoder", "decoder"):
        seen: list[Tensor] = []
        layer, own = getattr(own, side)[0], own.train()
        layer.register_forward_pre_hook(lambda m, given, seen=seen: seen.append(given[0]))
        own(ids, ids)
        holds(seen, f"the {side} is not called", "one call")
        zeros = 100 * float((seen[0] == 0).float().mean())
        holds(20 < zeros < 60, f"{zeros:.0f} % of the input of the {side} is zero", "about 40 %")


@homework.question(
    "How large is this model?",
    options=["About 44 million.", "About 56 million.", "About 186 million."],
    hints=(
        "Call your function with the config of the question.",
        "The layers have 44 million; what else is there?",
    ),
    read="notebook 07, section 8",
    uses=(count,),
)
def how_large_is_it(count) -> str:
    """
    Two vocabularies of 8,000 words, D = 512, F = 2,048, eight heads, six layers in each stack,
    post-norm, nothing tied. How many parameters is that according to **your** function?
    """
    found = count(TransformerConfig.base(8000, 8000)) / 1e6
    return "A" if found < 50 else "B" if found < 100 else "C"
