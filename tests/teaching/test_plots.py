"""The pictures: true to their numbers, with all their words legible and in place."""

import itertools
import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from nmtcourse.teaching import matrices, plots
from nmtcourse.teaching.style import COLOURS, WIDTH

matplotlib.use("Agg")
GERMAN = "Die kleinen Hunde sehen den alten Freundschaftsbecher <EOS>".split()
ENGLISH = "the small dogs see the old friendship cup".split()
CHINESE = list("那些小狗看见旧的友谊杯。")


@pytest.fixture(autouse=True)
def styled():
    with matplotlib.rc_context():
        plots.setup()
        yield
    plt.close("all")


def attention(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return (2 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))).softmax(
        -1
    )


def test_a_word_is_written_as_it_is_and_never_read_as_a_formula():
    words = ["5$", r"$\frac{1}$", "$x$", "plain"]
    labels = [
        *(tick_labels(plots.heat_map(torch.eye(4), words, words))),
        next(tick_labels(plots.bars(dict.fromkeys(words, 1.0), y_label="y"))),
        plots.scatter(torch.rand(4, 2), words).texts,
    ]
    for drawn in labels:
        drawn = [label for label in drawn if label.get_text()]
        drawn[0].figure.canvas.draw()
        assert [label._preprocess_math(label.get_text()) for label in drawn] == [
            (word, False) for word in words
        ]


def repeated(words: list[str], count: int) -> list[str]:
    return list(itertools.islice(itertools.cycle(words), count))


def box(artist):
    return artist.get_window_extent()


def assert_legible(figure) -> None:
    """Every word inside the figure and of readable size; none upon a title, a name of an axis or
    another word.
    """
    figure.canvas.draw()
    paper = figure.bbox
    for ax in figure.axes:
        names = [text for text in (ax.title, ax.xaxis.label, ax.yaxis.label) if text.get_text()]
        ticks = [
            [label for label in axis if label.get_text() and label.get_visible()]
            for axis in tick_labels(ax)
        ]
        for text in (*names, *itertools.chain(*ticks), *ax.texts):
            assert text.get_fontsize() >= 4
            inside = box(text)
            assert inside.x0 >= paper.x0 - 2 and inside.x1 <= paper.x1 + 2, text
            assert inside.y0 >= paper.y0 - 2 and inside.y1 <= paper.y1 + 2, text
        for name, label in itertools.product(names, itertools.chain(*ticks)):
            assert not box(name).overlaps(box(label)), (name, label)
        for labels in ticks:
            if not any(
                label.get_rotation() % 90 for label in labels
            ):  # the boxes of slanted words say nothing
                assert not any(
                    box(a).overlaps(box(b).shrunk(0.95, 0.8)) for a, b in itertools.pairwise(labels)
                )


def tick_labels(ax):
    """The words that are drawn at the two axes."""
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        yield [tick.label1 for tick in ticks if tick.label1.get_visible()]


def colours_of(ax) -> np.ndarray:
    """The colour in the middle of each cell, in the rendered figure: shape (rows, columns, 3), from
    0 to 1.
    """
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[::-1, :, :3] / 255
    rows, columns = np.indices(ax.images[0].get_array().shape)
    x, y = ax.transData.transform(np.stack([columns.ravel(), rows.ravel()], axis=1)).astype(int).T
    return pixels[y, x].reshape(*rows.shape, 3)


@pytest.mark.parametrize("size", [1, 3, 8, 20])
@pytest.mark.parametrize("language", [GERMAN, ENGLISH, CHINESE])
@pytest.mark.parametrize("annotate", [False, True])
def test_heat_map_is_legible_at_any_size(size, language, annotate):
    rows, columns = repeated(language, size), repeated(GERMAN, size)
    ax = plots.heat_map(
        attention(size, size),
        rows,
        columns,
        title="encoder, layer 1",
        row_label="query",
        column_label="key",
        annotate=annotate and size < 20,
    )
    assert ax.figure.get_figwidth() <= WIDTH + 0.01
    assert_legible(ax.figure)
    assert box(ax).width / 100 / size > (0.35 if size < 10 else 0.2)  # inches of a cell


def test_heat_map_shows_the_numbers_and_words_it_is_given():
    weights = attention(3, 5).requires_grad_()
    ax = plots.heat_map(weights, ENGLISH[:3], GERMAN[:5], title="head 1", annotate=True)
    assert np.allclose(ax.images[0].get_array(), weights.detach())
    assert [label.get_text() for label in ax.get_yticklabels()] == ENGLISH[:3]
    assert [label.get_text() for label in ax.get_xticklabels()] == GERMAN[:5]
    assert [text.get_text() for text in ax.texts] == [
        f"{weight:.2f}" for weight in weights.flatten()
    ]
    box_of_first, box_of_last = box(ax.get_yticklabels()[0]), box(ax.get_yticklabels()[-1])
    assert box_of_first.y0 > box_of_last.y0  # row 0 on top


@pytest.mark.parametrize(
    "values", [[[1, 2], [3, 4]], [torch.tensor([1, 2]), torch.tensor([3, 4])], np.eye(2)[None]]
)
def test_lists_tensors_and_arrays_are_welcome(values):
    assert plots.heat_map(values, ["a", "b"], ["c", "d"]).images[0].get_array().shape == (2, 2)


@pytest.mark.parametrize(
    "values", [torch.zeros(3, 2), torch.zeros(2, 2, 2), torch.zeros(2), torch.zeros(0, 2)]
)
def test_a_matrix_that_does_not_fit_its_words_is_refused(values):
    with pytest.raises(ValueError, match="shape"):
        plots.heat_map(values, ["a", "b"], ["c", "d"])


def test_white_is_zero_and_masked_scores_are_grey():
    values = torch.tensor([[-1.0, 0.0], [3.0, -math.inf]])
    ax = plots.heat_map(values, ["a", "b"], ["c", "d"], diverging=True)
    (negative, zero), (positive, masked) = colours_of(ax)
    assert zero.min() > 0.95 and masked.max() < 0.9 and np.ptp(masked) == 0
    assert negative[2] > negative[0] and positive[0] > positive[2]


def test_limits_fix_the_scale_of_two_maps():
    maps = [
        plots.heat_map(share * torch.eye(2), ["a", "b"], ["c", "d"], limits=(0, 1))
        for share in (1, 0.2)
    ]
    strong, weak = map(colours_of, maps)
    assert (strong[0, 0] != weak[0, 0]).any() and (strong[0, 1] == weak[0, 1]).all()


def test_a_map_of_one_value_has_a_scale():
    for number in (0.0, 0.5, -2.0, math.nan):
        ax = plots.heat_map(torch.full((2, 2), number), ["a", "b"], ["c", "d"])
        low, high = ax.images[0].get_clim()
        assert low < high
        assert (colours_of(ax).min() > 0.95) == (
            number in (0.0, low)
        )  # only the lightest value is white


def test_a_long_word_leaves_room_for_the_picture():
    long = "Donaudampfschifffahrtsgesellschaftskapitän"
    ax = plots.heat_map(attention(3, 3), [long, "a", "b"], ["c", "d", "e"])
    label = ax.get_yticklabels()[0].get_text()
    assert label.endswith("…") and long.startswith(label[:-1])
    assert box(ax).width > 0.3 * ax.figure.bbox.width


def test_the_colour_scale_is_as_high_as_the_map():
    ax = plots.heat_map(attention(8, 3), ENGLISH, GERMAN[:3])
    ax.figure.canvas.draw()
    scale = ax.child_axes[0]
    assert (box(scale).y0, box(scale).y1) == pytest.approx((box(ax).y0, box(ax).y1), abs=1)


@pytest.mark.parametrize("count, size", [(1, 3), (2, 3), (4, 8), (8, 8), (5, 4), (3, 20)])
@pytest.mark.parametrize("language", [GERMAN, CHINESE])
def test_heat_maps_are_legible(count, size, language):
    words = repeated(language, size)
    titles = [f"head {number}" for number in range(count)]
    maps = [attention(size, size, seed) for seed in range(count)]
    figure = plots.heat_maps(
        maps, words, words, titles, row_label="query", column_label="key", title="layer 1"
    )
    assert figure.get_figwidth() <= WIDTH + 0.01
    assert_legible(figure)
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in panels] == titles
    assert all(
        np.allclose(ax.images[0].get_array(), values)
        for ax, values in zip(panels, maps, strict=True)
    )
    assert all(box(ax).width / 100 / size >= 0.08 for ax in panels)  # inches of a cell


def test_heat_maps_have_one_scale_and_keep_to_a_row():
    maps = torch.stack([attention(4, 4) * share for share in (1, 0.5, 0.1)])
    figure = plots.heat_maps(maps, ENGLISH[:4], GERMAN[:4], ["a", "b", "c"], per_row=2)
    figure.canvas.draw()
    panels = [ax for ax in figure.axes if ax.images]
    assert len({ax.images[0].get_clim() for ax in panels}) == 1
    assert (
        box(panels[0]).y0 == pytest.approx(box(panels[1]).y0)
        and box(panels[2]).y1 < box(panels[0]).y0
    )


def test_heat_maps_stand_below_each_other_rather_than_shrink():
    words = repeated(GERMAN, 20)
    figure = plots.heat_maps([attention(20, 20)] * 4, words, words, list("abcd"))
    figure.canvas.draw()
    assert all(
        box(ax).width / 100 / 20 > 0.095 for ax in figure.axes if ax.images
    )  # inches of a cell


def test_heat_maps_need_a_title_for_each_matrix():
    with pytest.raises(ValueError, match="2 matrices and 1 titles"):
        plots.heat_maps(torch.zeros(2, 1, 1), ["a"], ["b"], ["only"])


def test_mask_fills_where_attending_is_allowed():
    allowed = torch.ones(8, 8, dtype=torch.bool).tril()
    ax = plots.mask(allowed[None, None], ENGLISH, ENGLISH, title="causal")
    wanted = np.where(allowed[..., None], to_rgb(COLOURS[0]), (1.0, 1.0, 1.0))
    assert np.abs(colours_of(ax) - wanted).max() < 0.01
    assert_legible(ax.figure)


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(ValueError, match="bool"):
        plots.mask(torch.ones(2, 2), ["a", "b"], ["c", "d"])


def test_curves_draw_the_numbers():
    ax = plots.curves(
        {"given": ([10, 20], [1.0, 2.0]), "counted": torch.tensor([3.0, 4.0, 5.0])},
        x_label="x",
        y_label="y",
    )
    given, counted = ax.lines
    assert given.get_xydata().tolist() == [[10, 1], [20, 2]]
    assert counted.get_xydata().tolist() == [[1, 3], [2, 4], [3, 5]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["given", "counted"]
    assert_legible(ax.figure)


def test_curves_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="'loss' has 2 numbers in x and 3 in y"):
        plots.curves({"loss": ([1, 2], [1, 2, 3])}, x_label="", y_label="")
    with pytest.raises(ValueError, match="shape"):
        plots.curves({"loss": torch.zeros(2, 2)}, x_label="", y_label="")


def test_curves_are_all_told_apart():
    ax = plots.curves({f"head {n}": [n, n + 1] for n in range(20)}, x_label="x", y_label="y")
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 20
    ax.figure.canvas.draw()
    assert not box(ax.get_legend()).overlaps(box(ax))


def test_log_axes_and_whole_numbers():
    ax = plots.curves({"loss": [1, 2, 3]}, x_label="epoch", y_label="nats", log_x=True, log_y=True)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    ax = plots.curves({"loss": [1, 2, 3]}, x_label="epoch", y_label="nats")
    assert all(tick % 1 == 0 for tick in ax.get_xticks())


@pytest.mark.parametrize(
    "values",
    [
        {"greedy": 88.1, "beam 4": 90.3, "sampling, temperature 1": 71.2},
        {f"{word} {place}": place for place, word in enumerate(repeated(GERMAN, 20))},
        {"encoder": {"head 0": 1.0, "head 1": -2.0}, "cross-attention": {"head 1": 3.0}},
        dict(zip(CHINESE, range(12), strict=True)),
    ],
)
def test_bars_are_legible(values):
    ax = plots.bars(values, y_label="BLEU", title="title")
    assert ax.figure.get_figwidth() <= WIDTH + 0.01
    assert_legible(ax.figure)
    assert box(ax).height > 90


def test_bars_have_the_heights_and_say_them():
    ax = plots.bars({"a": 1.5, "b": -2}, y_label="y", value_format="{:.1f}")
    assert [patch.get_height() for patch in ax.patches] == [1.5, -2]
    assert [text.get_text() for text in ax.texts] == ["1.5", "-2.0"]


def test_groups_of_bars_stand_side_by_side():
    ax = plots.bars({"x": {"a": 1, "b": 2}, "y": {"b": 3}}, y_label="y")
    heights = {
        label: [patch.get_height() for patch in bars]
        for bars, label in zip(ax.containers, "ab", strict=True)
    }
    assert heights["a"][0] == 1 and math.isnan(heights["a"][1]) and heights["b"] == [2, 3]
    first, second = ax.containers[0][0], ax.containers[1][0]
    assert first.get_x() + first.get_width() <= second.get_x()
    with pytest.raises(ValueError, match="group"):
        plots.bars({"x": {"a": 1}, "y": 2}, y_label="y")


def test_histogram_counts_over_the_same_bins():
    ax = plots.histogram({"short": [1, 1, 2], "long": [2, 9]}, x_label="length", bins=4)
    assert [sum(patch.get_height() for patch in bars) for bars in ax.containers] == [3, 2]
    assert [patch.get_x() for patch in ax.containers[0]] == [
        patch.get_x() for patch in ax.containers[1]
    ]
    assert len(plots.histogram([1, 2, 2], x_label="length").containers) == 1


def test_words_stand_beside_their_points_and_not_upon_each_other():
    points = [[0, 0], [0.3, 0.02], [5, 5], [5, 5.1], [2, 3]]
    words = ["Wasserfall", "Hund", "猫", "Katze", "<EOS>"]
    ax = plots.scatter(points, words, groups=["de", "de", "zh", "de", "special"])
    ax.figure.canvas.draw()
    boxes = {text.get_text(): box(text) for text in ax.texts}
    assert sorted(boxes) == sorted(words)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes.values(), 2))
    for point, word in zip(points, words, strict=True):
        x, y = ax.transData.transform(point)
        near = boxes[word].padded(10)
        assert near.contains(x, y), word


@pytest.mark.parametrize("labels, groups", [(["a"], None), (["a", "b"], ["x"])])
def test_points_without_words_are_refused(labels, groups):
    with pytest.raises(ValueError, match="expected"):
        plots.scatter([[0, 0], [1, 1]], labels, groups=groups)


def test_position_table_draws_columns_of_the_table():
    table = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    figure = plots.position_table(table, title="positions", dimensions=[0, 5])
    image, right = figure.axes[0].images[0], figure.axes[1]
    assert np.allclose(image.get_array(), table)
    assert np.allclose(right.lines[1].get_xydata(), np.stack([np.arange(12), table[:, 5]], axis=1))
    assert_legible(figure)
    with pytest.raises(ValueError, match="shape"):
        plots.position_table(table[0])


def test_given_axes_are_used():
    figure, axes = plt.subplots(2, 3)
    drawn = [
        plots.heat_map(attention(2, 2), ["a", "b"], ["c", "d"], ax=axes[0, 0]),
        plots.mask(torch.ones(2, 2, dtype=torch.bool), ["a", "b"], ["c", "d"], ax=axes[0, 1]),
        plots.curves({"a": [1, 2]}, x_label="x", y_label="y", ax=axes[0, 2]),
        plots.bars({"a": 1}, y_label="y", ax=axes[1, 0]),
        plots.histogram([1, 2], x_label="x", ax=axes[1, 1]),
        plots.scatter([[0, 0]], ["a"], ax=axes[1, 2]),
    ]
    assert drawn == list(axes.flat) and plt.get_fignums() == [figure.number]


def test_what_a_model_reads_is_drawn_as_it_is_computed():
    table, positions = np.arange(8.0).reshape(4, 2), np.ones((3, 2))
    figure = matrices.draw_input("cab", "abcd", table, positions)
    drawn = {ax.get_title(): ax.images[0].get_array().data for ax in figure.axes if ax.images}
    assert (drawn["one-hot rows"] @ drawn["× table of words"] == table[[2, 0, 1]]).all()
    assert (drawn["= what layer 0 reads"] == table[[2, 0, 1]] + 1).all()
    with pytest.raises(ValueError):
        matrices.draw_input("xyz", "abcd", table, positions)
