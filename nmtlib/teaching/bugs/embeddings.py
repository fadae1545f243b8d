"""Bugs 15 to 21: embeddings and positions."""

from __future__ import annotations

from nmtlib.teaching.bugs.bug import Bug
from nmtlib.teaching.bugs.planting import Edit

SUBJECT = "embeddings and positions"

BUGS = (
    Bug(
        number=15,
        key="embedding-not-scaled",
        title="Embedding not multiplied by the square root of d_model",
        subject=SUBJECT,
        symptom="Positions drown the words at first: a sine is up to 1, an entry of a fresh embedding a small "
        "fraction of it, so learning starts slowly.",
        cure="Multiply the looked-up vectors by the square root of d_model, as section 3.4 of the paper says.",
        source="tutorial code",
        caught_by=("embedding.scale",),
        edits=(
            Edit(
                "model.embeddings:TokenEmbedding.forward", "super().forward(ids) * self.scale", "super().forward(ids)"
            ),
        ),
    ),
    Bug(
        number=16,
        key="source-positions-missing",
        title="Position table not added to the source",
        subject=SUBJECT,
        symptom="The encoder reads a bag of words: 'the dog bites the man' and 'the man bites the dog' get one "
        "and the same translation.",
        cure="Add the positions once, right after each embedding, for the source as for the target.",
        source="course projects; the opposite, positions added in two places, is as common",
        caught_by=("positions.source_order",),
        edits=(
            Edit(
                "model.transformer:Transformer.encode",
                "self.source_positions(self.source_embedding(source))",
                "self.source_embedding(source)",
            ),
        ),
    ),
    Bug(
        number=17,
        key="decoding-position-zero",
        title="Every decoded token stands at position 0",
        subject=SUBJECT,
        symptom="The validation loss is good, but translations repeat themselves or lose their word order.",
        cure="Tell step-by-step decoding how many tokens came before: the position is the length of the cache.",
        source="course projects with a hand-written decoding cache",
        caught_by=("positions.advance", "decoding.cache"),
        edits=(Edit("model.transformer:Transformer.step", ", start=state.length)", ")"),),
    ),
    Bug(
        number=18,
        key="position-table-plain-attribute",
        title="Position table is a plain attribute, not a buffer",
        subject=SUBJECT,
        symptom="On the CPU all is well; after model.to('cuda') the first addition stops with two devices, and "
        "after model.double() or half() the table keeps its old type.",
        cure="Register what belongs to a module but is not trained: register_buffer, persistent=False.",
        source="issue trackers of several Transformer libraries",
        caught_by=("positions.follow_the_model",),
        edits=(
            Edit(
                "model.embeddings:Positions.__init__",
                'self.register_buffer("table", sinusoidal_table(max_length, d_model), persistent=False)',
                "self.table = sinusoidal_table(max_length, d_model)",
            ),
        ),
    ),
    Bug(
        number=19,
        key="dropout-default",
        title="Dropout probability not passed on: Dropout() is 0.5",
        subject=SUBJECT,
        symptom="The training loss is higher than it should be, and two passes differ, even with dropout 0.",
        cure="Pass the configured probability to every Dropout; a model with dropout 0 must repeat itself exactly.",
        source="course projects, where a layer takes the probability and forgets it",
        caught_by=("layers.dropout_rate",),
        edits=(Edit("model.layers:FeedForward.__init__", "Dropout(dropout)", "Dropout()"),),
    ),
    Bug(
        number=20,
        key="sinusoid-wrong-axis",
        title="Sine and cosine alternate over positions, not over dimensions",
        subject=SUBJECT,
        symptom="The model trains, a little worse; drawn as a picture, the table shows stripes across the positions, "
        "and how alike two positions are depends on more than their distance.",
        cure="Give even dimensions the sine and odd dimensions the cosine of one angle; positions are rows.",
        source="course projects that write table[0::2] where table[:, 0::2] is meant",
        caught_by=("positions.shift_is_rotation",),
        edits=(
            Edit(
                "model.embeddings:sinusoidal_table",
                "return torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, d_model).to(",
                "table = angle.repeat_interleave(2, dim=1)  # (length, D)\n"
                "    table[0::2], table[1::2] = table[0::2].sin(), table[1::2].cos()\n"
                "    return table.to(",
            ),
        ),
    ),
    Bug(
        number=21,
        key="pad-row-trained",
        title="The PAD row of the embedding receives gradient",
        subject=SUBJECT,
        symptom="Nothing while every mask is right; the vector of PAD is a word like any other and moves as soon as "
        "one mask is missing, or the optimizer decays all rows.",
        cure="Give nn.Embedding its padding_idx: the row then starts at zero and gets no gradient.",
        source="course projects and tutorials",
        caught_by=("embedding.pad_gradient",),
        edits=(
            Edit(
                "model.embeddings:TokenEmbedding.__init__",
                "super().__init__(vocab_size, d_model, padding_idx=pad)",
                "super().__init__(vocab_size, d_model)",
            ),
        ),
    ),
)
