"""The interface between the checks and any Transformer: yours, torch's, or ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

IdPair = tuple[list[int], list[int]]  # the word ids of a source and its target, without BOS and EOS
IdBatch = tuple[Tensor, Tensor, Tensor]  # padded: source (B, S), decoder input and labels (B, T)
Updates = list[list[list[IdPair]]]  # each update a list of micro-batches
Hypothesis = tuple[list[int], float | None]  # word ids and score
FIND_OUT = -1  # an id that the adapter does not say
# The parts that anybody's code has; the others are functions of nmtlib, and of whoever has them.
BROAD = ("make_model", "logits", "epoch", "translate", "run", "evaluate")


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
    Five parts are enough for everything that anybody's code has: `make_model`, `logits` where the
    model is not called as `model(source, target)`, `epoch`, `translate` and `run`; `evaluate` is a
    sixth, for the numbers that you report.
    """

    name: str = "my Transformer"
    where: str = ""  # code that makes the adapter, for the lines that show a finding again

    # Facts.  Ids that are not said are found out, as `nmtcheck.connect.ids` says; ids from
    # `first_word` on are words; a design that differs on purpose says so and is not blamed.
    pad: int = FIND_OUT
    bos: int = FIND_OUT
    eos: int = FIND_OUT
    first_word: int = 4
    source_bos: bool = False  # True: sources begin with BOS; `make_batch`, if given, tells
    source_eos: bool | None = None  # False: sources have no EOS; None: as `translate` encodes them
    # The optional arguments of the model's forward, such as masks, that your training gives it.
    # None: read from the calls in its file, or not known; then no finding about masks is proved.
    given: tuple[str, ...] | None = None
    file: str = ""  # in which the model is written, if it was read from one
    unsure: tuple[str, ...] = ()  # masks with the default None of which nobody says how they come
    tried: tuple[str, ...] = ()  # masks that are given in a form that was found by trying
    assumed: str = ""  # a line about arguments whose values were found by trying
    strict: bool = False  # True: a part is blamed for what no model asks of it, too
    resizable: bool = True  # False: `make_model` makes the same model whatever the sizes asked for
    fixed_positions: bool = True  # False: positions are learned
    scaled_embedding: bool = True  # False: embeddings are not multiplied by sqrt(d_model)
    pad_unsmoothed: bool = True  # False: PAD gets its share of the smoothing too, as in torch
    length_penalty: bool = True  # False: `beam` ranks by log-probability alone

    # Attention.  attention(query (B, H, T, K), key (B, H, S, K), value (B, H, S, K), mask or None,
    # dropout probability) -> result (B, H, T, K) and weights (B, H, T, S) before dropout, or None
    # in place of the weights.
    attention: Callable[[Tensor, Tensor, Tensor, Tensor | None, float], tuple] | None = None
    # multi_head(d_model, n_heads) -> a module called with query (B, T, D), key and value (B, S, D),
    # and a mask (B, 1, T, S) or None, which returns (B, T, D).
    multi_head: Callable[[int, int], nn.Module] | None = None
    # projections(that module) -> {"query": (weight (D, D), bias (D,) or None), "key": ...,
    # "value": ..., "output": ...} as `torch.nn.functional.linear` takes them.
    projections: Callable[[nn.Module], dict[str, tuple[Tensor, Tensor | None]]] | None = None

    # Embeddings.  embedding(V, D) -> a module that turns ids (B, S) into scaled vectors
    # (B, S, D).
    embedding: Callable[[int, int], nn.Module] | None = None
    # positions(D, longest sentence) -> a module called with vectors (B, S, D), which returns them
    # with their positions added.
    positions: Callable[[int, int], nn.Module] | None = None

    # The model.  make_model(sizes) -> a new model with random weights; torch's seed is set before.
    make_model: Callable[[Sizes], nn.Module] | None = None
    # logits(model, source (B, S), decoder input (B, T)) -> (B, T, V); the model makes its masks.
    logits: Callable[[Any, Tensor, Tensor], Tensor] = lambda model, *given: model(*given)
    # attention_maps(model, source, decoder input) -> the cross-attention weights (B, H, T, S) of
    # each decoder layer, the layer that runs first standing first.
    attention_maps: Callable[[Any, Tensor, Tensor], list[Tensor]] | None = None
    # tied() -> the tensors of a new model that are meant to be one and the same.
    tied: Callable[[], Sequence[Tensor]] | None = None
    # count_parameters(model) -> how many trained values the model is said to have.
    count_parameters: Callable[[Any], int] | None = None
    # reload(model): write a checkpoint, and rebuild the model from that file alone.
    reload: Callable[[Any], nn.Module] | None = None

    # run(): your own training as your script starts it, with its data, schedule and evaluation, for
    # about three epochs; it is ended after 1,000 updates.  It may return how the trained model
    # translates a list of sentences, and some of them: (translate(lines) -> translations, lines).
    run: Callable[[], Any] | None = None
    # Two broad parts, for a loop and a search as they are.  epoch(model, batches, training) -> the
    # mean loss in nats: one pass over `standins.Batch`es, which trains or only measures.
    epoch: Callable[[Any, list[Any], bool], float] | None = None
    # evaluate(model, pairs) -> what your evaluation reports for these pairs of sentences (lists of
    # words, as for `translate`): a number, or several as a tuple or a dict: loss, perplexity, BLEU.
    evaluate: Callable[[Any, list[tuple[list[str], list[str]]]], Any] | None = None
    # translate(model, words of a source, most words) -> the words (or ids) of its translation, as
    # a list or one string; the words are those of `standins.Vocabulary`.
    translate: Callable[[Any, list[str], int], Any] | None = None

    # Training in detail, for what an epoch does not show.  loss(logits (B, T, V), labels (B, T),
    # smoothing) -> mean over the labels that are not PAD, in nats.
    loss: Callable[[Tensor, Tensor, float], Tensor] | None = None
    # schedule(n) -> the learning rate of update n = 1, 2, 3, ...
    schedule: Callable[[int], float] | None = None
    # train(model, updates, clip): your loop.  Make one optimizer step for each update, with
    # `schedule` and gradients clipped to the norm `clip`.
    train: Callable[[nn.Module, Updates, float], None] | None = None
    # validate(model, pairs) -> the perplexity that you report, per target token, EOS included;
    # choose a batch size that makes several batches of a handful of pairs.
    validate: Callable[[nn.Module, list[IdPair]], float] | None = None
    # fit(model, training pairs, validation pairs, epochs) -> the model that you keep, and the
    # validation perplexity of each epoch.
    fit: Callable[..., tuple[nn.Module, list[float]]] | None = None

    # Decoding step by step.  start(model, source) -> state; step(model, newest tokens (N,), state)
    # -> logits (N, V) and the state after it.
    start: Callable[[Any, Tensor], Any] | None = None
    step: Callable[[Any, Tensor, Any], tuple[Tensor, Any]] | None = None
    # greedy(model, source, most words) -> word ids of each sentence, without BOS and EOS; one of
    # `most` words is whole.
    greedy: Callable[[Any, Tensor, int], list[list[int]]] | None = None
    # beam(model, source, beam size, length penalty, most words) -> the hypotheses of each sentence,
    # best first.  Penalty 0 ranks by log-probability; a greater one favours longer translations.
    beam: Callable[[Any, Tensor, int, float, int], list[list[Hypothesis]]] | None = None
    # hypotheses(model, source, references) -> what your evaluation compares with the references,
    # one for each sentence.
    hypotheses: Callable[[Any, Tensor, list[list[int]]], list] | None = None

    # Data.  make_batch(pairs) -> one padded batch; make_batches(pairs, most tokens in a batch) ->
    # those of an epoch.
    make_batch: Callable[[list[IdPair]], IdBatch] | None = None
    make_batches: Callable[[list[IdPair], int], list[IdBatch]] | None = None
    # vocabulary(training, validation, test sentences) -> the tokens that get an id of their own;
    # the sentences' words are separated by spaces.
    vocabulary: Callable[[list[str], list[str], list[str]], Collection[str]] | None = None
    # encode_text(tokens in the order of their ids, sentence) -> ids; "@@" ends a token that the
    # next one continues.
    encode_text: Callable[[list[str], str], list[int]] | None = None
    # bleu(hypotheses, references, language "en" or "zh") of plain text: corpus BLEU, from 0 to 1 or
    # to 100.
    bleu: Callable[[list[str], list[str], str], float] | None = None
    # word_bleu(hypotheses, references) of plain text, split at spaces, as NLTK counts it.
    word_bleu: Callable[[list[str], list[str]], float] | None = None
    # score(tokens in the order of their ids, ids that a model said, references) -> the BLEU that
    # your evaluation reports for these sentences; references are plain text, and may hold words
    # that are not among the tokens.
    score: Callable[[list[str], list[list[int]], list[str]], float] | None = None

    def has(self, part: str) -> bool:
        """Whether a part is there (or a fact is true); 'fit|epoch' asks for one of the two.

        Raises ValueError for a name that no part has.
        """
        names = [f.name for f in fields(self)]
        asked = part.split("|")
        if unknown := [name for name in asked if name not in names]:
            raise ValueError(f"an adapter has no part {unknown[0]!r}; it has {', '.join(names)}")
        return any(getattr(self, name) not in (None, False) for name in asked)
