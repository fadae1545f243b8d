"""Bugs 22 to 30: layers, and the model that they make."""

from __future__ import annotations

from nmtlib.teaching.bugs.bug import Bug
from nmtlib.teaching.bugs.planting import Edit

SUBJECT = "layers and model"
RESIDUAL = "model.layers:Residual.forward"

BUGS = (
    Bug(
        number=22,
        key="feed-forward-identity",
        title="The feed-forward block returns dropout(x), not dropout of its output",
        subject=SUBJECT,
        symptom="The loss falls, but half or more of each layer's weights stay as they were drawn: the block is an "
        "identity, and its matrices get no gradient.",
        cure="Return what was computed; after one backward pass, look for parameters without a gradient.",
        source="a published course project",
        caught_by=("layers.feed_forward",),
        edits=(
            Edit(
                "model.layers:FeedForward.forward",
                "return self.contract(self.dropout(F.relu(self.expand(x))))",
                "y = self.contract(F.relu(self.expand(x)))\n    return self.dropout(x)",
            ),
        ),
    ),
    Bug(
        number=23,
        key="residual-of-normalised",
        title="The residual connection adds the normalised tensor",
        subject=SUBJECT,
        symptom="A pre-norm model trains, but depth hurts: no path leads around the layers without a "
        "normalisation, which was the point of pre-norm.",
        cure="Keep x, and add to it: x + sublayer(norm(x)).",
        source="course projects that overwrite x before they add it",
        caught_by=("layers.residual",),
        edits=(
            Edit(
                RESIDUAL,
                "return x + self.dropout(sublayer(self.norm(x)))",
                "x = self.norm(x)\n        return x + self.dropout(sublayer(x))",
            ),
        ),
    ),
    Bug(
        number=24,
        key="normalised-twice",
        title="Normalised before and after the sub-layer",
        subject=SUBJECT,
        symptom="It trains like neither design: the warm-up that pre-norm should spare is needed again.",
        cure="Choose pre-norm or post-norm, and keep one LayerNorm for each residual connection.",
        source="tutorial code that mixes the text of the paper with the code of its successors",
        caught_by=("layers.normalised_once",),
        edits=(
            Edit(
                RESIDUAL,
                "return x + self.dropout(sublayer(self.norm(x)))",
                "return self.norm(x + self.dropout(sublayer(self.norm(x))))",
            ),
        ),
    ),
    Bug(
        number=25,
        key="dropout-twice",
        title="Dropout twice on the same path",
        subject=SUBJECT,
        symptom="The model underfits as if dropout were nearly twice as high: 0.1 drops 19 % of the values.",
        cure="Let one place own the dropout of a sub-layer's output: the residual connection.",
        source="course projects whose feed-forward block and residual connection both end in dropout",
        caught_by=("layers.dropout_once",),
        edits=(
            Edit(
                "model.layers:FeedForward.forward",
                "return self.contract(self.dropout(F.relu(self.expand(x))))",
                "return self.dropout(self.contract(self.dropout(F.relu(self.expand(x)))))",
            ),
        ),
    ),
    Bug(
        number=26,
        key="layers-share-weights",
        title="Layers repeated by reference: all of them are one",
        subject=SUBJECT,
        symptom="The model has a fraction of the parameters that were asked for and ends worse; a deeper one is no "
        "larger.",
        cure="Make a new layer for each place, in a loop; [layer] * 6 is six times the same object.",
        source="tutorial code that forgets the deep copy",
        caught_by=("layers.separate_weights",),
        edits=(
            Edit(
                "model.transformer:Transformer.__init__",
                "nn.ModuleList(EncoderLayer(*layer) for _ in range(config.n_encoder_layers))",
                "nn.ModuleList([EncoderLayer(*layer)] * config.n_encoder_layers)",
            ),
            Edit(
                "model.transformer:Transformer.__init__",
                "nn.ModuleList(DecoderLayer(*layer) for _ in range(config.n_decoder_layers))",
                "nn.ModuleList([DecoderLayer(*layer)] * config.n_decoder_layers)",
            ),
        ),
    ),
    Bug(
        number=27,
        key="cross-attention-ignores-memory",
        title="Cross-attention takes its keys and values from the decoder",
        subject=SUBJECT,
        symptom="Fluent sentences that have nothing to do with the source: a language model, whose loss stops at "
        "that of guessing the target language.",
        cure="Keys and values of cross-attention come from the encoder's memory, queries from the decoder.",
        source="course projects that copy the line of self-attention",
        caught_by=("layers.cross_attention",),
        edits=(Edit("model.layers:DecoderLayer.forward", "(x, memory, memory, memory_mask)", "(x, x, x, mask)"),),
    ),
    Bug(
        number=28,
        key="attribute-name-differs",
        title="An attribute has one name in __init__ and another in forward",
        subject=SUBJECT,
        symptom="The model is built, printed and counted without complaint; the first batch stops with AttributeError.",
        cure="Call every module once right after writing it, on a tiny input.",
        source="published course code",
        caught_by=("model.shape",),
        edits=(Edit("model.layers:FeedForward.forward", "self.contract(", "self.project("),),
    ),
    Bug(
        number=29,
        key="tying-copies",
        title="Embeddings said to be tied are copied",
        subject=SUBJECT,
        symptom="Both tables agree before the first update and part with it; the model is larger than its "
        "configuration says.",
        cure="Assign the Parameter itself, and check with `is`; equal values are not a shared tensor.",
        source="course projects",
        caught_by=("model.tied",),
        edits=(
            Edit(
                "model.transformer:Transformer.__init__",
                "self.output.weight = self.target_embedding.weight",
                "self.output.weight.data.copy_(self.target_embedding.weight)",
            ),
        ),
    ),
    Bug(
        number=30,
        key="parameters-counted-per-level",
        title="Parameters counted once for each level of nesting",
        subject=SUBJECT,
        symptom="A model is reported to have several times the parameters that it has.",
        cure="Sum over model.parameters(), which yields every tensor once, a shared one too.",
        source="a published course project",
        caught_by=("model.parameter_count",),
        edits=(
            Edit(
                "model.transformer:Transformer.parameter_table",
                "for name, parameter in self.named_parameters():  # yields a tied tensor once, under its first name",
                "for name, parameter in ((n, p) for n, m in self.named_modules() if n for p in m.parameters()):",
            ),
        ),
    ),
)
