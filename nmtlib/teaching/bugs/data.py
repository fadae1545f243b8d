"""Bugs 44 to 47 and 55 to 58: data, metrics, plots and checkpoints."""

from __future__ import annotations

from nmtlib.teaching.bugs.bug import Bug
from nmtlib.teaching.bugs.planting import Edit

SUBJECT = "data and decoding"
GUARD = """\
    for role, sentences in (("hypothesis", hypotheses), ("reference", references)):
        for i, sentence in enumerate(sentences):
            if not (isinstance(sentence, list | tuple) and all(isinstance(token, str) for token in sentence)):
                raise ValueError(
                    f"{role} {i} is {_shown(sentence)}; expected one flat list of token strings such as "
                    f"['a', 'dog'] (a string would be scored letter by letter): tokenize it first"
                )
"""

BUGS = (
    Bug(
        number=44,
        key="bpe-marks-stripped",
        title="BPE marks stripped from the tokens instead of looked up",
        subject=SUBJECT,
        symptom="Five times more <UNK> than the vocabulary explains, all of them pieces of words; nothing else hints "
        "at it.",
        cure="Look tokens up exactly as the vocabulary writes them, 'na@@' and not 'na'; strip marks from output only.",
        source="a published course project on a corpus that is segmented in advance",
        caught_by=("data.marks",),
        edits=(
            Edit(
                "data.tokenizers:SubwordMarkTokenizer.encode",
                "return words",
                "return [word.removesuffix(JOIN_MARK) for word in words]",
            ),
        ),
    ),
    Bug(
        number=45,
        key="vocabulary-from-test",
        title="Vocabulary built from the test set too",
        subject=SUBJECT,
        symptom="No <UNK> in the test set, and a better score than the same model gets on new text.",
        cure="Build tokenizers and vocabularies from the training split alone.",
        source="course projects that build one vocabulary before they split",
        caught_by=("data.vocabulary",),
        edits=(
            Edit(
                "data.codec:build_codecs",
                "[p.source for p in corpus.train], [p.target for p in corpus.train]",
                "[p.source for p in [*corpus.train, *corpus.test]], [p.target for p in [*corpus.train, *corpus.test]]",
            ),
        ),
    ),
    Bug(
        number=46,
        key="pairs-misaligned",
        title="Source of one pair beside the target of another",
        subject=SUBJECT,
        symptom="The loss stops at that of a language model: the target is learnt, but the source says nothing "
        "about it.",
        cure="Sort and shuffle pairs, never one side; print some rows of a finished batch as text.",
        source="course projects that sort each side by its own length, or are off by one after sorting",
        caught_by=("data.pairs",),
        edits=(
            Edit(
                "data.batching:collate",
                "Batch(pad([e.source for e in examples]), pad([e.target for e in examples]))",
                "Batch(pad(sorted((e.source for e in examples), key=len)), "
                "pad(sorted((e.target for e in examples), key=len)))",
            ),
        ),
    ),
    Bug(
        number=47,
        key="padded-to-corpus-length",
        title="Every batch padded to the longest sentence of the corpus",
        subject=SUBJECT,
        symptom="Training is several times slower than it has to be, with the same loss: most positions hold PAD.",
        cure="Pad each batch to its own longest sentence, and put sentences of similar length into one batch.",
        source="course projects that pad the whole corpus once",
        caught_by=("data.padding",),
        edits=(Edit("data.batching:pad", "width = max(map(len, rows))", "width = max(40, *map(len, rows))"),),
    ),
    Bug(
        number=55,
        key="bleu-of-strings",
        title="BLEU given strings instead of token lists",
        subject=SUBJECT,
        symptom="A BLEU that no such model can have: a string is a sequence of letters, and letters match easily.",
        cure="Give NLTK lists of tokens, and refuse anything else.",
        source="published paper code, a course repository and a benchmark's scorer",
        caught_by=("metrics.word_bleu",),
        edits=(
            Edit(
                "inference.evaluate:score",
                "bleu_nltk([h.split() for h in hypotheses], [r.split() for r in references])",
                "bleu_nltk(hypotheses, references)",
            ),
            Edit("inference.metrics:bleu_nltk", GUARD, ""),
        ),
    ),
    Bug(
        number=56,
        key="bleu-chinese-by-spaces",
        title="Chinese BLEU with a tokenizer that cuts at spaces",
        subject=SUBJECT,
        symptom="BLEU is near 0 for translations that read well: without spaces a whole sentence is one word.",
        cure="Score Chinese by characters, tokenize='zh', and print the signature.",
        source="course projects that leave the default tokenizer",
        caught_by=("metrics.bleu_chinese",),
        edits=(
            Edit(
                "inference.evaluate:bleu_tokenizer",
                '    if corpus.target_language == "zh":\n        return "zh"\n',
                "",
            ),
        ),
    ),
    Bug(
        number=57,
        key="attention-wrong-name",
        title="Attention maps labelled with the wrong layer",
        subject=SUBJECT,
        symptom="The pictures look plausible, but the map called cross-attention is as wide as the target, not as the "
        "source, and that of the encoder is causal.",
        cure="Take the name and the map from the same module; test on a map whose shape tells which one it is.",
        source="course notebooks, whose plots carry the words of another sentence or layer",
        caught_by=("model.attention_maps",),
        edits=(
            Edit(
                "model.attention:record_attention",
                "for name, attention in attentions.items():",
                "for name, attention in zip(sorted(attentions), attentions.values(), strict=True):",
            ),
        ),
    ),
    Bug(
        number=58,
        key="rebuilt-with-defaults",
        title="Checkpoint rebuilt with other hyper-parameters than trained",
        subject=SUBJECT,
        symptom="The file loads without complaint, as the number of heads changes no shape, and the translations are "
        "nonsense.",
        cure="Store the configuration in the checkpoint, and rebuild the model from nothing else.",
        source="course projects that repeat the hyper-parameters in the script that translates",
        caught_by=("model.checkpoint",),
        edits=(
            Edit(
                "training.checkpoint:load_model",
                "model = Transformer(config)",
                'model = Transformer(TransformerConfig(**{**asdict(config), "n_heads": TransformerConfig.n_heads}))',
            ),
        ),
    ),
)
