"""The student's commands as the pages show them: hints are counted, and points are not lost."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmtcourse.homework import checking, marks, progress, student
from nmtcourse.homework.catalogue import assignments, find_task
from nmtcourse.homework.grading import grade, hint
from nmtcourse.main import main


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, which is the present one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def homework(*arguments):
    """The status of a command."""
    return main(["homework", *map(str, arguments)])


def hints_of(folder, capsys):
    """How many hints the status of a folder shows for its only notebook."""
    capsys.readouterr()
    assert homework("status", folder) == 0
    (found,) = re.findall(r"hints (\d)", capsys.readouterr().out)
    return int(found)


def test_hints_are_counted_in_the_folder_that_is_named(here, capsys):
    assert homework("start", "04", "--out", "my2") == 0
    for command in (["04.2"], ["04.2", 2], ["04.2", 2]):
        assert homework("hint", *command, "--folder", "my2") == 0
        assert "Not counted" not in capsys.readouterr().out
    assert hints_of("my2", capsys) == 2
    (here / "my2" / "progress.json").unlink()  # a notebook from the website comes without one
    assert homework("hint", "04.3", "--folder", "my2") == 0
    assert hints_of("my2", capsys) == 1


def test_hints_that_are_not_counted_say_so(here, capsys):
    assert homework("start", "04", "--out", "my2") == homework("start", "01") == 0
    assert homework("hint", "04.2") == 0
    told = capsys.readouterr().out
    assert find_task("04.2").hints[0][:30] in told and "Not counted" in told and "--folder" in told
    assert hints_of("my2", capsys) == hints_of("homework", capsys) == 0
    assert homework("hint", "01.1") == 0
    assert "Not counted" not in capsys.readouterr().out
    assert hints_of("homework", capsys) == 1


def test_a_chinese_page_has_chinese_hints_and_verdicts(here, capsys, monkeypatch):
    assert homework("start", "04", "--lang", "zh") == 0
    assert homework("hint", "04.2") == 0
    assert "循环" in capsys.readouterr().out
    monkeypatch.chdir("homework")
    for language, shown in (
        ("", "得 0 / 4 分"),
        ("en", "0 of 4 points"),
        ("zh", "得 0 / 4 分"),
    ):
        monkeypatch.setenv("NMTLIB_LANG", language)
        assert grade("04.1", lambda scores: scores) == 0
        assert shown in capsys.readouterr().out, language
    monkeypatch.delenv("NMTLIB_LANG")
    assert grade("05.1", lambda x, heads: x) == 0  # its page is not here
    assert "0 of 4 points" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_a_student_have_the_language_of_the_page_or_the_one_chosen(
    here, capsys, monkeypatch
):
    def said(*arguments):
        homework(*arguments)
        return capsys.readouterr().out

    assert "no assignment in homework" in said("status")
    assert "作业写好了" in said("start", "04", "--lang", "zh")
    assert "提示 0  选过 0  还没检查\n下一步：nmtlib homework check" in said("status")
    assert "没有记下" not in said("hint", "04.2") and "Not counted" in said("hint", "05.1")
    monkeypatch.setenv("NMTLIB_LANG", "en")
    assert "hints 1  choices 0  not checked yet\nnext: nmtlib" in said("status")
    monkeypatch.setenv("NMTLIB_LANG", "zh_CN.UTF-8")
    assert "里没有作业" in said("status", "nowhere") and "没有记下" in said("hint", "05.1")
    assert "作业写好了" in said("start", "05", "--out", "new")
    assert '"language": "zh"' in next(here.glob("new/05*.ipynb")).read_text("utf-8")
    assert "your homework" in said("start", "06", "--out", "new", "--lang", "en")
    assert "你的病人在" in said("patient", "小明")
    told = said("examine", "homework/patient.py")
    assert "诊断：1 个 bug 说对了 0 个" in told and "健康的模型是" in told
    assert not re.search(r"\b(a|in|of|the|is|right)\b", told)


@pytest.mark.slow
def test_a_check_speaks_the_language_that_is_asked_for(here, capsys, monkeypatch):
    monkeypatch.setenv("NMTLIB_LANG", "")  # put back afterwards: --lang sets it
    assert homework("start", "04") == 0
    capsys.readouterr()
    for language, shown in (("zh", "04.1 "), ("en", "04.1 ")):
        status = homework("check", "homework/04_attention.ipynb", "04.1", "--lang", language)
        told = capsys.readouterr().out
        assert status == 1 and shown in told
        assert bool(re.search("[\u4e00-\u9fff]", told)) == (language == "zh"), told


@pytest.mark.parametrize("folder", [".", "nowhere"])
def test_a_folder_without_the_homework_is_named(folder, here, capsys):
    assert homework("hint", "04.2", "--folder", folder) == 1
    told = capsys.readouterr().err
    assert f"{folder} has no notebook of homework 04" in told
    assert f"nmtlib homework start 04 --out {folder}" in told and not list(here.iterdir())


def test_a_hint_is_given_though_it_cannot_be_counted(here, capsys):
    assert homework("start", "04", "--out", "homework") == 0
    (here / "homework" / "progress.json").write_text("[", "utf-8")
    with pytest.raises(ValueError, match="progress.json is damaged"):
        hint("04.2")
    assert find_task("04.2").hints[0][:30] in capsys.readouterr().out


def test_points_are_shown_and_kept_a_task_at_a_time(here, capsys, monkeypatch):
    """Also where they cannot be kept; tasks that are not checked keep theirs."""
    assert homework("start", "04", "--out", "my") == 0
    path, four = here / "my" / "04_attention.ipynb", assignments()["04"]

    def mark(path, tasks, report):
        chosen = [t for t in four.tasks.values() if not tasks or t.id in tasks]
        done = [marks.Mark(t.id, t.title, t.points if tasks else 1.0, t.points) for t in chosen]
        return marks.Marked(path, four.number, done, digest=student.digest(path))

    monkeypatch.setattr(checking, "mark", mark)
    (here / "my" / "progress.json").write_text("[", "utf-8")
    assert homework("check", path) == 1
    out, err = capsys.readouterr()
    total = f"{len(four.tasks)} of {sum(task.points for task in four.tasks.values()):g}"
    assert f"total: {total}" in out and "progress.json is damaged" in err
    (here / "my" / "progress.json").unlink()
    assert homework("check", path) == 1
    assert homework("check", path, "04.2") == 0
    assert "total: 6 of 6" in capsys.readouterr().out
    kept = progress.read(here / "my").checked[path.name].marks
    assert [mark.points for mark in kept] == [1.0, 6.0, 1.0, 1.0]
    assert homework("status", "my") == 0
    assert "9 of 20  hints 0  choices 0  checked" in capsys.readouterr().out


def test_concurrent_checks_lose_no_progress(here):
    assert homework("start", "04", "--out", "my") == 0
    my = here / "my"

    def check(number):
        marked = marks.Marked(my / f"04_{number}.ipynb", "04", choices={"04.4": "ABC"[number % 3]})
        student.keep(marked)
        progress.count("hints", "04.2", number, my)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(check, range(24)))
    known = progress.read(my)
    assert len(known.checked) == len(known.hints["04.2"]) == 24
    assert sorted(known.choices["04.4"]) == ["A", "B", "C"]


def test_a_full_disk_leaves_no_empty_work(here, capsys, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert homework("start", "04", "--out", "my") == 1
    assert "No space left" in capsys.readouterr().err
    assert homework("patient", "ann", "--out", "my") == 1
    assert not [*here.rglob("*.ipynb"), *here.rglob("patient.py")]
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert homework("start", "04", "--out", "my") == 0


def test_the_words_to_an_assistant_are_in_the_language_of_the_page(tmp_path):
    for language in ("en", "zh"):
        student.start("04", tmp_path / language, language)
    english, chinese = ((tmp_path / each / "AGENTS.md").read_text("utf-8") for each in ("en", "zh"))
    assert "作业" in chinese and "作业" not in english
    assert chinese.count("\n- ") == english.count("\n- ")
    assert 'hint("04.2")' in chinese and 'hint("04.2")' in english
