# ruff: noqa: E501, E101, W191 (logs have long lines, and tabs)
"""`nmtlib review`: logs of several programs, and what each rule says of them with its numbers."""

import json
import re
from pathlib import Path

import pytest
from broken_corpora import run

from nmtcourse.review.reading import Log, Record, read
from nmtcourse.review.rules import RULES

ROOT = Path(__file__).parents[1]
FAIRSEQ = """
| INFO | fairseq.tasks.translation | [de] dictionary: 900 types
| INFO | fairseq.tasks.translation | [en] dictionary: 600 types
| INFO | fairseq_cli.train | Namespace(label_smoothing=0.1, warmup_updates=4000)
| INFO | train_inner | epoch 001: 10 / 50 loss=9.4, nll_loss=9.3, ppl=630.35, num_updates=10, lr=1e-06
| INFO | train | epoch 001 | loss 8.4 | nll_loss 7.62 | ppl 196.72 | num_updates 50 | lr 2e-05 | loss_scale 8
| INFO | valid | epoch 001 | valid on 'valid' subset | loss 7.1 | nll_loss 6.1 | ppl 68.59 | num_updates 50
| INFO | train | epoch 002 | loss 6.4 | nll_loss 5.62 | ppl 49.18 | num_updates 100 | lr 4e-05
| INFO | valid | epoch 002 | valid on 'valid' subset | loss 6.3 | nll_loss 5.1 | ppl 34.3 | num_updates 100
Generate test with beam=5: BLEU4 = 8.10, 42.1/16.0/7.5/3.3 (BP=0.762, ratio=0.786)
"""
TORCHTEXT = """
Epoch: 01 | Time: 0m 26s
	Train Loss: 4.233 | Train PPL:  68.935
	 Val. Loss: 3.018 |  Val. PPL:  20.448
Epoch: 02 | Time: 0m 26s
	Train Loss: 2.811 | Train PPL:  16.626
	 Val. Loss: 2.296 |  Val. PPL:   9.934
Epoch: 03 | Time: 0m 26s
	Train Loss: 2.231 | Train PPL:   9.309
	 Val. Loss: 2.401 |  Val. PPL:   11.034
| Test Loss: 1.682 | Test PPL:   5.376 |
from torchtext.data.metrics import bleu_score
BLEU score = 0.2610
"""
OPENNMT = """
[2020-05-01 11:00:00,000 INFO]  * vocabulary size. source = 24995; target = 35820
[2020-05-01 11:01:00,000 INFO] Step 50/100; acc:   4.01; ppl: 34012.10; xent: 10.43; lr: 0.00001; 20 sec
[2020-05-01 11:02:00,000 INFO] Step 100/100; acc:   5.9; ppl: 8100.00; xent: 9.00; lr: 0.00002; 40 sec
[2020-05-01 11:40:20,000 INFO] Validation perplexity: 10.4856
"""
KERAS = """
Epoch 1/3
810/810 [=====] - 200s 240ms/step - loss: 6.6 - masked_accuracy: 0.14 - val_loss: 5.0 - val_accuracy: 0.2
Epoch 2/3
810/810 [=====] - 60s 74ms/step - loss: 4.5 - masked_accuracy: 0.30 - val_loss: 4.1 - val_accuracy: 0.3
Epoch 3/3
810/810 [=====] - 60s 74ms/step - loss: 3.2 - masked_accuracy: 0.43 - val_loss: 4.3 - val_accuracy: 0.3
"""
JOEY = """
- joeynmt.training - Epoch   1, Step:  100, Batch Loss:   142.31, Tokens per Sec:    4000, Lr: 0.0001
- joeynmt.training - Validation result (greedy) at epoch 1, step 200: bleu: 2.11, loss: 88000.5, ppl: 40.2
- joeynmt.training - Validation result (greedy) at epoch 2, step 400: bleu: 7.90, loss: 71000.5, ppl: 19.7
- joeynmt.training - Validation result (greedy) at epoch 3, step 600: bleu: 7.10, loss: 73000.5, ppl: 21.4
"""
MARIAN = """
[config] label-smoothing: 0.1
[config] lr-warmup: 16000
Ep. 1 : Up. 1000 : Sen. 100,000 : Cost 7.81234 : Time 100.0s : 20000.00 words/s : L.r. 1.8750e-05
[valid] Ep. 1 : Up. 2000 : cross-entropy : 130.235 : new best
Ep. 2 : Up. 3000 : Sen. 50,000 : Cost 5.50000 : Time 100.0s : 20000.00 words/s : L.r. 5.6250e-05
"""
NOTEBOOK = """
opt = NoamOpt(model.src_embed[0].d_model, 1, 500,
        torch.optim.Adam(model.parameters(), lr=0, betas=(0.9, 0.98)))
criterion = LabelSmoothing(size=len(vocab), smoothing=0.1)  # nn.KLDivLoss(reduction='sum')
batch_size = 100
number of samples: 9,950
n_epochs = 2
total_loss = 0
print("Loss: %f" % (loss / batch.n_tokens))
The model says the same sentence for each input.
"""
PRINTED = """
{'loss': 3.2, 'grad_norm': 1.1, 'learning_rate': 4.5e-05, 'epoch': 1.0}
{'eval_loss': 2.2, 'eval_bleu': 12.1, 'epoch': 1.0}
{'loss': 1.9, 'learning_rate': 2.5e-05, 'epoch': 2.0}
{'eval_loss': 2.0, 'eval_bleu': 15.0, 'epoch': 2.0}
"""
PLAIN = "".join(
    f"Epoch: {n}, Train loss: {a}, Val loss: {b}, Epoch time = 44.1s\n"
    for n, a, b in [(1, 5.3, 4.1), (2, 3.7, 3.3), (3, 2.7, 2.64)]
)
TABLE = "epoch,train_loss,valid_loss,valid_ppl\n" + "".join(
    f"{n},{a},{b},{p}\n" for n, a, b, p in [(1, 412.2, 380.1, 90.2), (2, 300.4, 310.9, 39.6)]
)
BITS = json.dumps({"epoch": 1, "valid_loss": "8.9", "valid_nll_loss": "8.1", "valid_ppl": "274.37"})
STATE = json.dumps(
    {
        "log_history": [
            {"epoch": 0.5, "learning_rate": 4e-05, "loss": 2.9, "step": 40},
            {"epoch": 1.0, "eval_bleu": 15.2, "eval_loss": 2.1, "step": 80},
            {"epoch": 2.0, "eval_bleu": 20.3, "eval_loss": 1.9, "step": 160},
            {"epoch": 3.0, "eval_bleu": 21.3, "eval_loss": 2.0, "step": 240},
            {"epoch": 3.0, "train_loss": 2.2, "train_runtime": 900.0, "step": 240},
        ]
    }
)
SAYS = [  # a file, its text, and what the review says of it
    ("a.log", FAIRSEQ, "first loss", "6.446 at update 10, ln V = 6.397: as that of an untrained"),
    ("a.log", FAIRSEQ, "warm-up", "100 updates, warm-up 4,000: the rate never reached its peak"),
    ("a.log", FAIRSEQ, "floor", "smoothing 0.1, V 600: no loss below 0.96"),
    ("a.log", FAIRSEQ, "perplexity", "perplexity is 2^nll, in bits: 2^5.100 = 34.2968 (5 records)"),
    ("a.log", FAIRSEQ, "length ratio", "0.79 (as the score says): too short"),
    ("a.log", FAIRSEQ, "BLEU", "8.1, by fairseq or multi-bleu"),
    ("a.log", TORCHTEXT, "perplexity", "perplexity is exp(loss): exp(2.401) = 11.0"),
    ("a.log", TORCHTEXT, "validation", "below training in 2 of 3 (perplexity 9.934 against 16.626"),
    ("a.log", TORCHTEXT, "turn", "lowest at epoch 2 (2.296), 2.401 at epoch 3"),
    ("a.log", TORCHTEXT, "BLEU", "0.261 on a scale to 1, so 26.10, by torchtext"),
    ("a.log", OPENNMT, "first loss", "10.430 at update 50, ln V = 10.486: as that of an untrained"),
    ("a.log", OPENNMT, "warm-up", "the rate is highest at update 100 (2e-05), the last: it never"),
    ("a.log", KERAS, "validation", "below training in 2 of 3 (loss 4.1 against 4.5 at epoch 2)"),
    ("a.log", KERAS, "warm-up", "cannot tell without --updates N and --warmup N"),
    (
        "a.log",
        JOEY,
        "first loss",
        "142.31 at update 100 is more than ln V of any vocabulary: a sum",
    ),
    ("a.log", JOEY, "validation", "cannot tell without means over tokens"),
    ("a.log", MARIAN, "validation", "the losses are sums; cannot tell"),
    ("a.log", MARIAN, "warm-up", "3,000 updates, warm-up 16,000: the rate never reached its peak"),
    ("a.md", NOTEBOOK, "warm-up", "200 updates, warm-up 500: the rate never reached its peak"),
    ("a.md", NOTEBOOK, "sum or mean", "the code takes the sum and divides it by the tokens"),
    ("a.md", NOTEBOOK, "outputs", "all are the same sentence; count the updates: 200"),
    ("a.md", NOTEBOOK, "first loss", "cannot tell"),
    ("a.csv", TABLE, "sum or mean", "412.2 at epoch 1 is more than ln V: a sum"),
    ("a.csv", TABLE, "perplexity", "the loss is a sum: 310.9 = 84.5 ln 39.6"),
    ("a.jsonl", BITS, "perplexity", "perplexity is 2^nll, in bits: 2^8.100 = 274.374"),
    ("trainer_state.json", STATE, "turn", "lowest at epoch 2 (1.9), 2 at epoch 3"),
    ("trainer_state.json", STATE, "validation", "cannot tell"),
    ("a.log", PRINTED, "validation", "below training in 1 of 2 (loss 2.2 against 3.2 at epoch 1)"),
    ("a.log", PLAIN, "turn", "not yet: 2.64 at epoch 3, the last, is the lowest"),
    (
        "a.csv",
        "epoch,step,train_loss_epoch,val_loss\n0,9,5.5,\n0,9,,4.6\n",
        "validation",
        "4.6 against 5.5",
    ),
    (
        "run-tag-valid_loss.csv",
        "Wall time,Step,Value\n1,10,4.1\n2,20,3.5\n3,30,3.6\n",
        "turn",
        "lowest at update 20 (3.5)",
    ),
]


def said(path, *options):
    """What the review says, by rule."""
    status, text = run("review", path, *options)
    assert status == 0, text
    return {line[:13].strip(): line[13:] for line in text.splitlines()[1:]}


@pytest.mark.parametrize(("name", "text", "about", "says"), SAYS)
def test_a_log_is_told_what_its_numbers_show(tmp_path, name, text, about, says):
    (tmp_path / name).write_text(text, "utf-8")
    assert says in said(tmp_path / name)[about]


def test_our_own_run_is_read_with_its_settings():
    found = said(ROOT / "nmtlib" / "trained" / "toy-de-en")
    assert "666 updates, warm-up 200: 30% of the run" in found["warm-up"]
    assert "no loss below 0.909; 0.964 at epoch 6 is 0.055 above" in found["floor"]
    assert "not yet" in found["turn"] and "6 of 6" in found["validation"]


def test_what_is_missing_can_be_given(tmp_path):
    (tmp_path / "x.csv").write_text("step,loss\n1,6.2\n2,6.1\n3,1.5\n")
    assert "cannot tell without --vocab N" in said(tmp_path / "x.csv")["first loss"]
    found = said(tmp_path / "x.csv", "--vocab", 500, "--smoothing", 0.1, "--warmup", 9)
    assert "ln V = 6.215" in found["first loss"] and "3 updates, warm-up 9" in found["warm-up"]
    assert "0.5" in found["floor"] and "above" in found["floor"]
    assert "far below" in said(tmp_path / "x.csv", "--vocab", 10**9)["first loss"]
    status, text = run("review", tmp_path / "x.csv", "--vocab", 1)
    assert status == 1 and "the vocabulary must be 3 or more" in text


@pytest.mark.parametrize(("count", "says"), [(1, "undertrained"), (9, "9 of 9")])
def test_equal_translations_are_counted(tmp_path, count, says):
    lines = [f"Translation: a dog number {i % count} .\nTarget: a dog ." for i in range(9)]
    (tmp_path / "x.txt").write_text("\n".join(lines))
    assert says in said(tmp_path / "x.txt")["outputs"]
    assert (
        "1.67 (45 words for 27): too long, in 9 sentences"
        in said(tmp_path / "x.txt")["length ratio"]
    )


def test_nothing_is_judged_without_numbers(tmp_path):
    (tmp_path / "x.txt").write_text("hello")
    status, text = run("review", tmp_path / "x.txt")
    assert status == 1 and "no loss, perplexity or score was recognised" in text
    assert run("review", tmp_path / "none")[0] == 1
    lines = [rule(Log("x", [Record("train", {"accuracy": 0.5})])) for rule in RULES]
    assert all(line.needs for line in lines)


def test_each_rule_names_a_section_that_a_notebook_has(tmp_path):
    named = set()
    for name, text, *_ in SAYS:
        (tmp_path / name).write_text(text, "utf-8")
        named |= {rule(read(tmp_path / name)).notebook for rule in RULES}
    for place in named:
        number, section = place.split(".")
        (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        assert re.search(rf"^## {section} · ", text, re.M), place
