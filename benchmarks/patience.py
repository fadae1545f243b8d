"""When beam 5 stops on Multi30k: nmtcourse/teaching/recorded/benchmarks/patience.json."""

from sacrebleu.metrics import BLEU
from shared import SHIPPED, write_result

from nmtcourse.provenance import command_line, describe_machine
from nmtlib import load, load_corpus

translator, pairs, rows = load("multi30k-de-en"), load_corpus("multi30k-de-en").test, []
for alpha in (0.0, 1.0, 2.0):
    for patience in (1, 2, 4, 1000):
        options = {"beam": 5, "length_penalty": alpha, "patience": patience}
        found = [best[0] for best in translator.search([p.source for p in pairs], **options)]
        texts = [translator.target.decode(hypothesis.ids) for hypothesis in found]
        bleu = (metric := BLEU()).corpus_score(texts, [[pair.target for pair in pairs]])
        figures = {"bleu": bleu.score, "brevity": bleu.bp, "ratio": bleu.sys_len / bleu.ref_len}
        rows.append(options | figures | {"score": sum(h.score for h in found) / len(found)})
about = {"command": f"python benchmarks/{command_line()}", "machine": describe_machine()}
about |= {"signature": str(metric.get_signature()), "rows": rows}
write_result(SHIPPED / "patience.json", about)
