"""The interface between the checks and any Transformer: yours, torch's, or ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

IdPair = tuple[list[int], list[int]]  # the word ids of a source and its target, without BOS and EOS
IdBatch = tuple[Tensor, Tensor, Tensor]  # padded: source (B, S), decoder input and labels (B, T)
FIND_OUT = -1  # an id that the adapter does not say
PARTS = ("make_model", "logits", "epoch", "translate", "run", "evaluate")


@dataclass(frozen=True)
class Sizes:
    """What a check asks of a model; all sizes are tiny so that all checks take seconds."""

    source_vocab_size: int = 13
    target_vocab_size: int = 13
    d_model: int = 16
    n_heads: int = 4
    n_layers: int = 2  # of the encoder, and as many of the decoder
    d_ff: int = 24
    dropout: float = 0.0
    max_length: int = 40  # the longest sentence to be read, BOS and EOS included


@dataclass(frozen=True)
class Adapter:
    """Connects an implementation to the checks; a part that is None is missing.

    Checks of a missing part are skipped, and so are those in which a part raises
    NotImplementedError.  Conventions at this border, whatever holds inside: batch first, a mask is
    bool and True means *may attend*, padding stands at the right, logits are not normalised.
    B batch, H heads, T queries or target length, S keys or source length, K head size, D d_model,
    V vocabulary.

    The smallest useful adapter names `make_model`; each further part adds the checks that need it.
    `logits` is only needed where the model is not called as `model(source, target)`.
    """

    name: str = "my Transformer"
    where: str = ""  # code that makes the adapter, for the lines that show a finding again

    # Facts.  Ids that are not said are found out, as `nmtcheck.connect.ids` says; ids from
    # `first_word` on are words; a design that differs on purpose says so and is not blamed.
    pad: int = FIND_OUT
    bos: int = FIND_OUT
    eos: int = FIND_OUT
    first_word: int = 4
    source_bos: bool = False  # True: sources begin with BOS
    source_eos: bool | None = None  # False: sources have no EOS; None: as `translate` encodes them
    # The optional arguments of the model's forward, such as masks, that your training gives it.
    # None: read from the calls in its file, or not known; then no finding about masks is proved.
    given: tuple[str, ...] | None = None
    file: str = ""  # in which the model is written, if it was read from one
    unsure: tuple[str, ...] = ()  # masks with the default None of which nobody says how they come
    tried: tuple[str, ...] = ()  # masks that are given in a form that was found by trying
    assumed: str = ""  # a line about arguments whose values were found by trying
    resizable: bool = True  # False: `make_model` makes the same model whatever the sizes asked for
    fixed_positions: bool = True  # False: positions are learned
    scaled_embedding: bool = True  # False: embeddings are not multiplied by sqrt(d_model)

    # make_model(sizes) -> a new model with random weights; torch's seed is set before.
    make_model: Callable[[Sizes], nn.Module] | None = None
    # logits(model, source (B, S), decoder input (B, T)) -> (B, T, V); the model makes its masks.
    logits: Callable[[Any, Tensor, Tensor], Tensor] = lambda model, *given: model(*given)
    # run(): your own training as your script starts it, with its data, schedule and evaluation, for
    # about three epochs; it is ended after 1,000 updates.  It may return how the trained model
    # translates a list of sentences, and some of them: (translate(lines) -> translations, lines).
    run: Callable[[], Any] | None = None
    # epoch(model, batches, training) -> the mean loss in nats: your loop, once over
    # `standins.Batch`es, which trains or only measures.
    epoch: Callable[[Any, list[Any], bool], float] | None = None
    # evaluate(model, pairs) -> what your evaluation reports for these pairs of sentences (lists of
    # words, as for `translate`): a number, or several as a tuple or a dict: loss, perplexity, BLEU.
    evaluate: Callable[[Any, list[tuple[list[str], list[str]]]], Any] | None = None
    # translate(model, words of a source, most words) -> the words (or ids) of its translation, as
    # a list or one string; the words are those of `standins.Vocabulary`.
    translate: Callable[[Any, list[str], int], Any] | None = None

    def has(self, part: str) -> bool:
        """Whether a part is there (or a fact is true); 'run|epoch' asks for one of the two.

        Raises ValueError for a name that no part has.
        """
        names = [f.name for f in fields(self)]
        asked = part.split("|")
        if unknown := [name for name in asked if name not in names]:
            raise ValueError(f"an adapter has no part {unknown[0]!r}; it has {', '.join(names)}")
        return any(getattr(self, name) not in (None, False) for name in asked)
