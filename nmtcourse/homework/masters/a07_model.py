"""Homework 07: the residual connection, the number of parameters, the whole Transformer."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from nmtcourse.homework.compare import holds, same, shaped
from nmtcourse.homework.draw import Draw
from nmtcourse.homework.task import Assignment
from nmtlib.model import Transformer, TransformerConfig
from nmtlib.model.embeddings import Positions, TokenEmbedding
from nmtlib.model.layers import DecoderLayer, EncoderLayer
from nmtlib.model.masks import padding_mask, target_mask

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


@homework.task(
    "easy",
    "The residual connection",
    """
    Write the residual connection with LayerNorm and dropout around a sub-layer f. With
    `norm="post"`, as in the paper, the result is LayerNorm(x + dropout(f(x))); with `norm="pre"` it
    is x + dropout(f(LayerNorm(x))). In training, dropout sets each number of f's result to zero
    with probability `dropout` and divides the others by 1 - `dropout`. `nn.LayerNorm` and
    `nn.Dropout` are allowed.
    """,
    hints=(
        "To which of x, f's result and their sum do LayerNorm and dropout apply?",
        "Write the two formulas as two return statements, and read them aloud.",
    ),
    read="notebook 07, the sections on residuals, norms and dropout",
    mistakes={
        "Pre and post are exchanged.": [('if self.kind == "pre":', 'if self.kind == "post":')],
        "The residual connection is missing: x is not added.": [
            ("return x + self.dropout(f(self.norm(x)))", "return self.dropout(f(self.norm(x)))"),
            ("return self.norm(x + self.dropout(f(x)))", "return self.norm(self.dropout(f(x)))"),
        ],
        "The normalised input is added, not x itself.": [
            (
                "return x + self.dropout(f(self.norm(x)))",
                "x = self.norm(x); return x + self.dropout(f(x))",
            )
        ],
        "Dropout applies to the sum, so it also affects x.": [
            (
                "return x + self.dropout(f(self.norm(x)))",
                "return self.dropout(x + f(self.norm(x)))",
            ),
            (
                "return self.norm(x + self.dropout(f(x)))",
                "return self.norm(self.dropout(x + f(x)))",
            ),
        ],
        "There is no dropout.": [("nn.Dropout(dropout)", "nn.Identity()")],
        "Dropout is active in evaluation mode.": [
            ("nn.Dropout(dropout)", "lambda x: nn.functional.dropout(x, dropout, True)")
        ],
        "The probability of keeping a number is used as that of dropping it.": [
            ("nn.Dropout(dropout)", "nn.Dropout(1 - dropout)")
        ],
        "Post-norm normalises only f's result and adds x afterwards.": [
            ("self.norm(x + self.dropout(f(x)))", "x + self.norm(self.dropout(f(x)))")
        ],
        "f is called twice.": [
            (
                "return x + self.dropout(f(self.norm(x)))",
                "f(x); return x + self.dropout(f(self.norm(x)))",
            ),
        ],
    },
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


def centred(x: Tensor) -> Tensor:
    """LayerNorm as initialised."""
    return nn.functional.layer_norm(x, x.shape[-1:])


@homework.check(Residual, "Compare both formulas with your code.", worth=2)
def follows_the_formulas(answer, draw: Draw):
    """Without dropout, post is LayerNorm(x + f(x)), pre x + f(LayerNorm(x)); f is called once."""
    b, s, d = draw.sizes(3, 3)
    x, matrix = 3 * draw.normal(b, s, d) + 1, draw.normal(d, d)
    for norm, expected in (
        ("pre", x + torch.tanh(centred(x) @ matrix)),
        ("post", centred(x + torch.tanh(x @ matrix))),
    ):
        calls = []

        def f(y: Tensor, calls: list = calls) -> Tensor:
            calls.append(y)
            return torch.tanh(y @ matrix)

        same(answer(d, 0.0, norm).to(draw.dtype)(x, f).detach(), expected, f"the result of {norm}")
        holds(len(calls) == 1, f"f was called {len(calls)} times", "once")


@homework.check(Residual, "Which paths lead from the result back to x, and which to f?")
def passes_gradients_on(answer, draw: Draw):
    """Gradients flow through f and around it, with post-norm and pre-norm."""
    b, s, d = draw.sizes(3, 3)
    given, towards = (draw.normal(b, s, d), draw.normal(d, d)), draw.normal(b, s, d)
    for norm in ("pre", "post"):
        x, matrix = (each.clone().requires_grad_() for each in given)
        module = answer(d, 0.0, norm).to(draw.dtype)
        result = module(x * 1, lambda y, matrix=matrix: torch.tanh(y @ matrix))
        holds(result.requires_grad, f"a result without a gradient ({norm})", "one with a gradient")
        (result * towards).sum().backward()
        found, x.grad, back = x.grad, None, matrix.grad
        holds(found is not None and back is not None, f"no gradient for x or f ({norm})", "both")
        matrix.grad, inside = None, centred(x) if norm == "pre" else x
        total = x + torch.tanh(inside @ matrix)
        ((total if norm == "pre" else centred(total)) * towards).sum().backward()
        same(found, x.grad, f"the gradient of x ({norm})", tolerance=1e-3)
        same(back, matrix.grad, f"the gradient in f ({norm})", tolerance=1e-3)


@homework.check(Residual, "To which of the three does dropout apply?", worth=1)
def drops_what_f_brings(answer, draw: Draw):
    """In training with pre-norm, dropout leaves x alone; a share p of f's numbers is 0, the others
    are / (1 - p).
    """
    x, ones = 100 * torch.ones(1, 400, 8), torch.ones(1, 400, 8)
    for p in (0.1, 0.4):
        module = answer(8, p, "pre").train()
        found = module(x, lambda y: ones).detach() - 100
        zeros = float((found.abs() < 1e-3).float().mean())
        rest = found[found.abs() >= 1e-3]
        holds(
            len(rest) and float((rest - 1 / (1 - p)).abs().max()) < 0.02,
            f"for p = {p} numbers of f become {short_set(rest)}",
            f"{1 / (1 - p):.2f} or 0",
        )
        holds(
            abs(zeros - p) < 0.05,
            f"{100 * zeros:.0f} % of f's numbers are dropped",
            f"{100 * p:.0f} %",
        )
        dropped = found.abs()[0] < 1e-3
        together = int(dropped.all(0).sum() + dropped.all(1).sum())
        what = f"{together} rows or columns are dropped together"
        holds(together < 8, what, "single numbers, and hardly ever a whole row")
        again = module(x, lambda y: ones).detach() - 100
        holds(not torch.equal(found, again), "the same numbers are dropped in every call", "others")


@homework.check(Residual, "Both variants need dropout.")
def drops_with_post_norm(answer, draw: Draw):
    """In training with post-norm, a share p of f's numbers is dropped, and none of x's."""
    x, brought = 1 + draw.normal(1, 100, 64), torch.ones(1, 100, 64, dtype=draw.dtype)
    brought[..., 32:] = 0  # there only LayerNorm changes x
    for p in (0.1, 0.4):
        module = answer(64, p, "post").to(draw.dtype).train()
        found = module(x.clone(), lambda y: brought.clone()).detach()
        added = without_norm(found, x) - x
        lost = 100 * float((added[..., 32:].abs() > 1e-3).double().mean())
        what = f"with post-norm {lost:.0f} % of the numbers of x change where f returns 0"
        holds(lost == 0, what, "x unchanged before LayerNorm")
        share = float((added[..., :32].abs() < 1e-3).double().mean())
        what = f"with post-norm {100 * share:.0f} % of f's numbers are dropped"
        holds(abs(share - p) < 0.05, what, f"{100 * p:.0f} %")


def without_norm(result: Tensor, x: Tensor) -> Tensor:
    """The input of LayerNorm, given x, of which the second half is unchanged in that input."""
    known, came = x[..., 32:], result[..., 32:]
    centre, middle = (each.mean(-1, keepdim=True) for each in (known, came))
    apart, off = known - centre, came - middle
    scale = (apart * off).sum(-1, keepdim=True) / apart.square().sum(-1, keepdim=True)
    return (result - middle) / scale + centre


def short_set(values: Tensor) -> str:
    """Up to three of the different values."""
    return ", ".join(f"{v:.2f}" for v in values.unique()[:3].tolist()) or "nothing"


@homework.check(Residual, "When is dropout active?")
def rests_in_evaluation(answer, draw: Draw):
    """In evaluation mode nothing is dropped, with pre-norm or post-norm."""
    x = draw.normal(2, 5, 6)
    for norm, expected in (("pre", x + centred(x) * 2), ("post", centred(x + x * 2))):
        module = answer(6, 0.5, norm).to(draw.dtype).eval()
        found = module(x, lambda y: 2 * y).detach()
        same(found, expected, f"the result of {norm} in evaluation mode")


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
    read="notebook 07, the section on the parameter table",
    mistakes={
        "A tied tensor is counted once for each use.": [
            (
                'tables = {"none": 2 * vt + vs, "target": vt + vs, "all": vt}[c.tied]',
                "tables = 2 * vt + vs",
            )
        ],
        "The biases of the four projections of attention are missing.": [
            ("4 * (d * d + d)", "4 * d * d")
        ],
        "A feed-forward block has two biases, of sizes F and D.": [
            ("2 * d * f + f + d", "2 * d * f")
        ],
        "A LayerNorm has two vectors, a gain and a shift.": [("norm = 2 * d", "norm = d")],
        "The decoder's cross-attention is missing.": [
            ("2 * attention + feed + 3 * norm", "attention + feed + 3 * norm")
        ],
        "A decoder layer has three norms, not two.": [("feed + 3 * norm", "feed + 2 * norm")],
        "The two final LayerNorms of a pre-norm model are missing.": [
            ('2 * norm if c.norm == "pre" else 0', "0")
        ],
        "Each head has matrices of full size: H times too many.": [
            ("4 * (d * d + d)", "4 * c.n_heads * (d * d + d)")
        ],
        "The bias of the output is missing.": [("tables * d + vt", "tables * d")],
        "Learned position tables are missing.": [
            ('2 * c.max_length * d if c.positions == "learned" else 0', "0")
        ],
        "Sinusoidal tables are counted, but they are not trained.": [
            ('2 * c.max_length * d if c.positions == "learned" else 0', "2 * c.max_length * d")
        ],
    },
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


def some_config(draw: Draw, **given) -> TransformerConfig:
    """A small config with all sizes different."""
    a, b, c, f = draw.random.sample(range(2, 12), 4)
    d, e = draw.random.sample(range(1, 4), 2)  # layers are slow to build
    sizes = {
        "source_vocab_size": 10 + a,
        "target_vocab_size": 25 + b,
        "d_model": 4 * c,
        "n_heads": 2,
    }
    sizes |= {"n_encoder_layers": d, "n_decoder_layers": e, "d_ff": 7 * f, "max_length": 31}
    sizes["norm"] = "post"
    return TransformerConfig(**sizes | given)


def counted(config: TransformerConfig) -> int:
    """The parameters of the course's model, built without memory."""
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


@homework.check(count, "Compare with `model.parameter_table()`, part by part.", worth=2)
def is_that_of_a_plain_model(answer, draw: Draw):
    """With post-norm, fixed positions and separate tables the count is the model's."""
    for heads in (1, 2, 4):
        config = some_config(draw, n_heads=heads)
        same(int(answer(config)), counted(config), f"the count for {heads} heads")


@homework.check(count, "Which options of the config add parameters, and which save some?", worth=2)
def knows_the_options(answer, draw: Draw):
    """Norm, positions and tying are counted as built, alone and together."""
    for norm, positions, tied in [
        ("pre", "sinusoidal", "none"),
        ("post", "learned", "none"),
        ("post", "sinusoidal", "target"),
        ("post", "sinusoidal", "all"),
        *itertools.product(("pre",), ("learned",), ("target", "all")),
    ]:
        config = some_config(draw, norm=norm, positions=positions)
        if tied == "all":
            config = replace(config, source_vocab_size=config.target_vocab_size)
        config = replace(config, tied=tied)
        same(
            int(answer(config)), counted(config), f"the count for {norm}, {positions}, tied {tied}"
        )


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
    read="notebook 07, the section on the assembly",
    given="""
    from nmtlib.model.embeddings import Positions, TokenEmbedding   # (V, D); (D, max_length, kind)
    from nmtlib.model.layers import DecoderLayer, EncoderLayer      # (config); see show_source
    from nmtlib.model.masks import padding_mask, target_mask        # (ids) -> mask
    """,
    mistakes={
        "All layers of a stack are the same object: they share their weights.": [
            (
                "nn.ModuleList(EncoderLayer(c) for _ in range(c.n_encoder_layers))",
                "nn.ModuleList([EncoderLayer(c)] * c.n_encoder_layers)",
            )
        ],
        "The layers are in a plain list, where PyTorch does not find them.": [
            (
                "nn.ModuleList(EncoderLayer(c) for _ in range(c.n_encoder_layers))",
                "list(EncoderLayer(c) for _ in range(c.n_encoder_layers))",
            )
        ],
        "The decoder sees the future: its mask only hides padding.": [
            ("target_mask(target), mask", "padding_mask(target), mask")
        ],
        "Cross-attention attends to padding: it lacks the source mask.": [
            ("target_mask(target), mask", "target_mask(target), None")
        ],
        "The encoder attends to padding: it lacks its mask.": [
            ("memory = layer(memory, mask)", "memory = layer(memory)")
        ],
        "The encoder layers are skipped: the memory is the embedded source.": [
            ("memory = layer(memory, mask)", "layer(memory, mask)")
        ],
        "The final LayerNorms of the two stacks are missing.": [
            ("memory = self.encoder_norm(memory)", "pass"),
            ("self.output(self.decoder_norm(x))", "self.output(x)"),
        ],
        "The target has no positions.": [
            (
                "self.target_positions(self.target_embedding(target))",
                "self.target_embedding(target)",
            )
        ],
        "The result is a softmax, not logits: the loss would apply softmax again.": [
            (
                "return self.output(self.decoder_norm(x))",
                "return self.output(self.decoder_norm(x)).softmax(-1)",
            )
        ],
        "Dropout is not applied to embeddings plus positions.": [
            (
                "self.dropout(self.source_positions(self.source_embedding(source)))",
                "self.source_positions(self.source_embedding(source))",
            ),
            (
                "self.dropout(self.target_positions(self.target_embedding(target)))",
                "self.target_positions(self.target_embedding(target))",
            ),
        ],
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


def both(answer, draw: Draw, **given) -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    """An answer and the course's model with the same weights, and padded sentences."""
    config = some_config(draw, n_encoder_layers=2, n_decoder_layers=3, **{"dropout": 0.0} | given)
    theirs = Transformer(config).to(draw.dtype).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * draw.normal(*parameter.shape))
    own = answer(config).to(draw.dtype).eval()
    weights = {name: value.clone() for name, value in theirs.state_dict().items()}
    gaps = sorted(set(weights) ^ set(own.state_dict()))
    holds(
        not gaps, f"{len(gaps)} names of weights differ, such as {gaps[:1]}", "the course's names"
    )
    own.load_state_dict(weights)
    source, target = draw.ids(4, 11, 3, 6), draw.ids(4, 11, 3, 5)
    source[1, 3:], target[2, 2:] = 0, 0
    return own, theirs, source, target


@homework.check(
    OwnTransformer, "Compare `model.state_dict().keys()` with those of the course.", worth=0
)
def has_the_parts(answer, draw: Draw):
    """The weights have the names and the number of the course's model."""
    for norm in ("post", "pre"):
        own, theirs, source, target = both(answer, draw, norm=norm)
        sizes = [sum(p.numel() for p in each.parameters()) for each in (own, theirs)]
        same(sizes[0], sizes[1], f"the number of parameters ({norm})")
        shaped(own(source, target), (3, 5, theirs.config.target_vocab_size), "the logits")


@homework.check(
    OwnTransformer, "Which step differs? Compare the memory of both models first.", worth=2
)
def computes_the_same(answer, draw: Draw):
    """Without padding, the logits are those of the course's model, for both norms."""
    for norm in ("post", "pre"):
        own, theirs, source, target = both(answer, draw, norm=norm)
        source, target = source.clamp(min=4), target.clamp(min=4)
        found, expected = own(source, target), theirs(source, target)
        same(found.detach(), expected.detach(), f"a logit ({norm}-norm)", tolerance=1e-4)


@homework.check(OwnTransformer, "Which of the three masks is missing or wrong?")
def masks_what_it_must(answer, draw: Draw):
    """With padding, the logits are those of the course's model."""
    own, theirs, source, target = both(answer, draw)
    for name, pair in {
        "a padded target": (source.clamp(min=4), target),
        "a padded source": (source, target.clamp(min=4)),
    }.items():
        found, expected = own(*pair), theirs(*pair)
        same(found.detach(), expected.detach(), f"a logit of {name}", tolerance=1e-4)


@homework.check(OwnTransformer, "Which option of the config belongs to which part?", draws=1)
def obeys_the_config(answer, draw: Draw):
    """With learned positions the weights and logits are those of the course's model."""
    own, theirs, source, target = both(answer, draw, positions="learned")
    found, expected = own(source, target), theirs(source, target)
    same(found.detach(), expected.detach(), "a logit with learned positions", tolerance=1e-4)


@homework.check(OwnTransformer, "Follow the backward pass from the logits to the source.", draws=1)
def trains_every_part(answer, draw: Draw):
    """Every weight gets the same gradient as in the course's model."""
    own, theirs, source, target = both(answer, draw)
    for model in (own, theirs):
        logits = model(source, target)
        holds(logits.requires_grad, "logits without a gradient", "logits with a gradient")
        (logits * torch.linspace(-1, 1, logits.size(-1), dtype=logits.dtype)).sum().backward()
    found = dict(own.named_parameters())
    for name, expected in theirs.named_parameters():
        holds(found[name].grad is not None, f"no gradient for {name}", "one")
        same(found[name].grad, expected.grad, f"the gradient of {name}", tolerance=1e-3)


@homework.check(OwnTransformer, "Where does dropout apply, besides inside the layers?")
def drops_in_training(answer, draw: Draw):
    """In training, dropout applies to embeddings plus positions, on both sides."""
    own, _, source, target = both(answer, draw, dropout=0.4)
    own.train()
    seen: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
    for name, calls in seen.items():
        layer = getattr(own, name)[0]
        layer.register_forward_pre_hook(lambda m, given, calls=calls: calls.append(given[0]))
    own(source, target)
    for name, calls in seen.items():
        zeros = float((torch.cat(calls) == 0).float().mean())
        what = f"{100 * zeros:.0f} % of the input of the {name} is zero"
        holds(0.2 < zeros < 0.6, what, "about 40 %")


@homework.question(
    "How large is this model?",
    options=["About 44 million.", "About 56 million.", "About 186 million."],
    hints=(
        "Call your function with the config of the question.",
        "The layers have 44 million; what else is there?",
    ),
    read="notebook 07, the section on the parameter table",
    uses=(count,),
)
def how_large_is_it(count) -> str:
    """
    Two vocabularies of 8,000 words, D = 512, F = 2,048, eight heads, six layers in each stack,
    post-norm, nothing tied. How many parameters is that according to **your** function?
    """
    found = count(TransformerConfig.base(8000, 8000)) / 1e6
    return "A" if found < 50 else "B" if found < 100 else "C"
