"""Bugs 1 to 14: attention and its masks."""

from __future__ import annotations

from nmtlib.teaching.bugs.bug import Bug
from nmtlib.teaching.bugs.planting import Edit

SUBJECT = "attention and masks"
ATTENTION = "model.attention:scaled_dot_product_attention"
# torch's fused kernel cannot make the mistakes of the written-out formula, so some bugs need the formula everywhere.
FORMULA_ONLY = Edit(ATTENTION, "if not return_weights and not trains_on_cpu:", "if False:  # no fused kernel")
NO_ZEROS = Edit(
    ATTENTION,
    "    if mask is not None:\n"
    "        weights = weights.masked_fill(~mask, 0.0)  # changes only rows that may attend to nothing\n",
    "",
)
MASK_WITH_INFINITY = (FORMULA_ONLY, Edit(ATTENTION, "torch.finfo(scores.dtype).min", "-math.inf"), NO_ZEROS)

BUGS = (
    Bug(
        number=1,
        key="attention-no-scale",
        title="No division by the square root of d_k",
        subject=SUBJECT,
        symptom="The model learns, but from the first step each query attends to very few keys; the wider the heads, "
        "the sharper the weights and the smaller their gradients.",
        cure="Divide the scores by the square root of the size of one head before the softmax.",
        source="attention modules of small libraries and of teaching code",
        caught_by=("attention.scale", "attention.reference"),
        edits=(
            Edit(ATTENTION, " / math.sqrt(query.size(-1))", ""),
            Edit(ATTENTION, "attn_mask=mask, dropout_p=dropout_p", "attn_mask=mask, dropout_p=dropout_p, scale=1.0"),
        ),
    ),
    Bug(
        number=2,
        key="attention-scale-d-model",
        title="Division by the square root of d_model, not of d_k",
        subject=SUBJECT,
        symptom="Nothing at first sight: the weights are flatter than they should be, the more heads the flatter, "
        "and with one head there is no difference at all.",
        cure="Take the size of one head, K = d_model / n_heads: the last dimension of the query that is already split.",
        source="hand-written Transformers for text and for images, where the full width is at hand and K is not",
        caught_by=("multi_head.loop",),
        edits=(
            Edit(
                "model.attention:MultiHeadAttention.weighted_values",
                "return scaled",
                "query = query / math.sqrt(self.n_heads)  # H * K = d_model\n    return scaled",
            ),
        ),
    ),
    Bug(
        number=3,
        key="attention-softmax-axis",
        title="Softmax over the queries, not over the keys",
        subject=SUBJECT,
        symptom="The rows of the attention map do not sum to 1, its columns do; a position changes when a later "
        "one does, although the causal mask is right.",
        cure="Apply the softmax along the last axis, that of the keys, and name it: dim=-1.",
        source="tutorial notebooks and a collection of annotated paper implementations",
        caught_by=("attention.rows_sum_to_one",),
        edits=(FORMULA_ONLY, Edit(ATTENTION, "scores.softmax(dim=-1)", "scores.softmax(dim=-2)")),
    ),
    Bug(
        number=4,
        key="mask-inverted",
        title="Padding mask inverted",
        subject=SUBJECT,
        symptom="Attention goes to the padding alone, and to nothing where there is none: the loss stays near that "
        "of a model that knows only the last word.",
        cure="Decide once what True means (here: may attend), and convert at the border of any library that "
        "thinks otherwise.",
        source="issue trackers: two attention interfaces of one library read True as 'attend' and as 'ignore'",
        caught_by=("masks.padding",),
        edits=(Edit("model.masks:padding_mask", "(ids != pad)", "(ids == pad)"),),
    ),
    Bug(
        number=5,
        key="causal-mask-off-by-one",
        title="Causal mask off by one: each position sees the next token",
        subject=SUBJECT,
        symptom="Training and validation loss fall towards zero within minutes, and the translations are worthless.",
        cure="Allow the diagonal and what is left of it, nothing to the right; print the mask of three tokens.",
        source="course projects that build the triangle with the wrong diagonal",
        caught_by=("masks.causal", "masks.future_in_training"),
        edits=(Edit("model.masks:causal_mask", "diagonal=past", "diagonal=past + 1"),),
    ),
    Bug(
        number=6,
        key="causal-mask-training-only",
        title="Causal mask missing in evaluation mode",
        subject=SUBJECT,
        symptom="The training loss is that of a healthy model, but the validation loss disagrees with it and with "
        "the translations: in evaluation the decoder suddenly has a future to look at.",
        cure="Build the mask in every mode; `self.training` may decide on dropout, and on nothing else.",
        source="a textbook whose decoder chooses its mask by the mode, for the sake of step-by-step decoding",
        caught_by=("masks.future_in_evaluation",),
        edits=(
            Edit(
                "model.transformer:Transformer.decode",
                "mask = target_mask(target, PAD)",
                "mask = target_mask(target, PAD) if self.training else padding_mask(target, PAD)",
            ),
        ),
    ),
    Bug(
        number=7,
        key="cross-attention-no-padding-mask",
        title="No padding mask on cross-attention",
        subject=SUBJECT,
        symptom="A sentence gets another translation when it shares its batch with a longer one.",
        cure="Pass the source's padding mask twice: to the encoder, and to every cross-attention of the decoder.",
        source="tutorial code that gives the decoder its own mask only",
        caught_by=("masks.cross_padding", "masks.more_padding"),
        edits=(
            Edit("model.layers:DecoderLayer.forward", "memory, memory, memory_mask)", "memory, memory)"),
            Edit(
                "model.layers:DecoderLayer.attend_to_memory",
                "cache.memory_values, memory_mask)",
                "cache.memory_values)",
            ),
        ),
    ),
    Bug(
        number=8,
        key="mask-fill-small",
        title="Masked scores set to a small number, -1e-9 for -1e9",
        subject=SUBJECT,
        symptom="Masked positions keep the weight of an average key: the loss falls suspiciously fast, because the "
        "decoder sees the future, and padding changes the translations.",
        cure="Fill with the lowest number of the type; then look at one row of weights: masked means exactly 0.",
        source="course homework, where one character of the constant is mistyped",
        caught_by=("attention.mask",),
        edits=(FORMULA_ONLY, Edit(ATTENTION, "torch.finfo(scores.dtype).min", "-1e-9"), NO_ZEROS),
    ),
    Bug(
        number=9,
        key="mask-fill-overflows-half",
        title="Masked scores set to -1e12, which half precision cannot hold",
        subject=SUBJECT,
        symptom="All is well in float32; in half precision the first mask stops the program, as the value "
        "'cannot be converted to type at::Half without overflow'.",
        cure="Ask the type for its lowest number, torch.finfo(scores.dtype).min, and write no constant.",
        source="issue trackers of translation toolkits and of a mixed-precision library",
        caught_by=("attention.mask_half",),
        edits=(FORMULA_ONLY, Edit(ATTENTION, "torch.finfo(scores.dtype).min", "-1e12")),
    ),
    Bug(
        number=10,
        key="mask-infinity-nan",
        title="A row of nothing but -inf becomes NaN",
        subject=SUBJECT,
        symptom="A query that may attend to nothing gets NaN, and one such row is enough to turn every weight of the "
        "model into NaN at the next update.",
        cure="Fill with the lowest finite number, and set the weights of masked keys to 0 after the softmax.",
        source="an issue of a deep-learning library that stayed open for years",
        caught_by=("attention.masked_row",),
        edits=MASK_WITH_INFINITY,
    ),
    Bug(
        number=11,
        key="heads-without-transpose",
        title="Heads split by reshape alone, without the transpose",
        subject=SUBJECT,
        symptom="All shapes are right and the model learns an easy task, but a 'head' holds pieces of several "
        "tokens, and a position changes when a later one does.",
        cure="Reshape to (B, S, H, K) first, then exchange the axes S and H.",
        source="Transformers written from scratch, and a recommender library; copy tasks do not reveal it",
        caught_by=("multi_head.tokens_apart",),
        edits=(
            Edit(
                "model.attention:MultiHeadAttention.split",
                "x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)",
                "x.reshape(x.size(0), self.n_heads, x.size(1), -1)",
            ),
        ),
    ),
    Bug(
        number=12,
        key="dropout-before-softmax",
        title="Dropout on the scores before the softmax",
        subject=SUBJECT,
        symptom="Training is noisier and ends a little worse: a dropped score becomes 0, which is an average key, "
        "and not a key without weight.",
        cure="Drop weights after the softmax, where 0 means 'not attended'.",
        source="course projects",
        caught_by=("attention.dropout",),
        edits=(
            FORMULA_ONLY,
            Edit(ATTENTION, "weights = scores.softmax", "weights = dropout(scores, dropout_p).softmax"),
            Edit(ATTENTION, "result = dropout(weights, dropout_p) @ value", "result = weights @ value"),
        ),
    ),
    Bug(
        number=13,
        key="key-value-swapped",
        title="Keys and values exchanged",
        subject=SUBJECT,
        symptom="Nothing, as long as the model is trained from scratch: the two projections exchange their roles; "
        "but weights of another implementation give nonsense.",
        cure="Pass query, key and value in one order everywhere, or by name.",
        source="course projects whose attention takes (value, key, query)",
        caught_by=("multi_head.key_value",),
        edits=(
            Edit(
                "model.attention:MultiHeadAttention.weighted_values",
                "query, keys, values, mask, ",
                "query, values, keys, mask, ",
            ),
        ),
    ),
    Bug(
        number=14,
        key="mask-padded-queries",
        title="Padded queries masked too, so that their rows become NaN",
        subject=SUBJECT,
        symptom="Training works until the first batch with padding in the target; then the loss, or the next "
        "update, is NaN, although no label of these rows counts.",
        cure="Mask keys only: what a padded query finds is ignored by the loss, and needs no mask.",
        source="the issue tracker of a deep-learning library, from readers who mask rows and columns alike",
        caught_by=("masks.padded_queries",),
        edits=(
            Edit(
                "model.masks:target_mask",
                "padding_mask(ids, pad) & causal",
                "padding_mask(ids, pad) & (ids != pad)[:, None, :, None] & causal",
            ),
            *MASK_WITH_INFINITY,
        ),
    ),
)
