"""Fine-tuning: a run that begins with the vocabularies and the weights of another one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from nmtlib.data.codec import Codec
from nmtlib.model.transformer import Transformer
from nmtlib.run import Run, find_run
from nmtlib.settings import Settings
from nmtlib.training.checkpoint import (
    Origin,
    load_weights,
    read_checkpoint,
    read_notes,
    require_config,
    require_identity,
)


class InitFrom:
    """The run that `training.init_from` names, by its folder or its name.

    Raises FileNotFoundError where there is none, ValueError where it reads other text.
    """

    def __init__(self, settings: Settings):
        try:
            self.run = find_run(settings.training.init_from)
            theirs = self.run.settings()
        except (FileNotFoundError, ValueError) as error:
            raise type(error)(f"training.init_from: {error}") from None
        joint = settings.tokenizer.joint
        require_languages("training.init_from", self.run, settings, either_way=joint)
        if theirs.tokenizer != settings.tokenizer:
            raise ValueError(
                f"training.init_from: the vocabularies of {self.run.folder} were made with "
                f"{json.dumps(asdict(theirs.tokenizer))}; give this run the same [tokenizer]"
            )

    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of that run."""
        return self.run.codecs()

    def load(self, model: Transformer) -> None:
        """Give a new model its weights; only dropout may differ.  Raises ValueError if more does.

        That is a size of the model, or a vocabulary that was changed since the weights were saved.
        """
        weights = self.run.weights_file()
        config, tensors, notes = read_checkpoint(weights)
        saved = read_notes(weights, notes, Origin).identity
        require_identity(weights, saved, self.run.codec_digests())
        dropouts = {name: getattr(model.config, name) for name in ("dropout", "attention_dropout")}
        require_config(weights, replace(config, **dropouts), model.config)
        load_weights(model, tensors, where=weights)


def require_languages(where: str, run: Run, settings: Settings, *, either_way: bool) -> None:
    """Raise ValueError naming `where` a run is given that translates other languages."""
    languages, known = settings.corpus.languages, run.settings().corpus.languages
    turned = either_way and sorted(languages) == sorted(known)
    if languages != known and not turned:
        raise ValueError(
            f"{where}: {run.folder} translates {'-'.join(known)}, but this corpus is "
            f"{'-'.join(languages)}; give a run of these languages"
        )
