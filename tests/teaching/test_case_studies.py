"""The records of notebook 13 say what they hold."""

import matplotlib.pyplot as plt

from nmtcourse.teaching import authors, case_studies


def test_every_quoted_sentence_is_judged_once():
    judged = case_studies.judged()
    assert sorted(n for group in judged["kinds"].values() for n in group) == list(range(40))
    assert len(judged["said"]) == 40


def test_own_captions_are_pairs_that_are_not_in_the_quoted_sentences():
    own = case_studies.own_captions()
    assert len({pair.source for pair in own}) == 20
    assert all(pair.source[-1] == pair.target[-1] == "." for pair in own)


def test_a_report_says_once_what_its_curves_are():
    figure = case_studies.draw_report(authors.histories("talks"), legend="sentences in a batch")
    legends = [ax.get_legend() for ax in figure.axes]
    assert legends[0].get_title().get_text() == "sentences in a batch"
    assert legends[1:] == [None, None, None]
    plt.close(figure)
