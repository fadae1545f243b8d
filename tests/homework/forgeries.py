"""Answers to 04.1 that compute nothing, and try to get its points all the same.

An object that calls itself equal got those of other tasks, whose results are lists.
"""

AN_OBJECT = """\
class Equal:
    def __ne__(self, other):
        return False
def stable_softmax(scores):
    return Equal()
"""
A_METHOD_OF_TORCH = """\
import torch
def stable_softmax(scores):
    torch.Tensor.nan_to_num = lambda self, *given: torch.zeros_like(self)
    return torch.zeros_like(scores)
"""
MODULES = """\
import torch
def stable_softmax(scores):
    name = "nmtcourse." + "homework." + "masters.a04_attention"
    return torch.serialization.sys.modules[name].stable_softmax(scores)
"""
IMPORTED = """\
import torch
def stable_softmax(scores):
    find = getattr(torch.serialization.sys.modules["import" + "lib"], "import_" + "module")
    return find("nmtcourse." + "homework." + "masters.a04_attention").stable_softmax(scores)
"""
PLAIN_IMPORT = """\
def stable_softmax(scores):
    from nmtcourse.homework.masters.a04_attention import stable_softmax
    return stable_softmax(scores)
"""
A_FILE = """\
from pathlib import Path
import nmtcourse
place = Path(nmtcourse.__file__).parent / "homework" / "masters" / "a04_attention.py"
exec(compile(place.read_text(), "x", "exec"))
"""
A_PAGE = """\
import json
from pathlib import Path
import nmtcourse
folder = Path(nmtcourse.__file__).parents[1] / "notebooks" / "homework" / "solutions-spoilers"
for cell in json.loads((folder / "04_attention.ipynb").read_text())["cells"]:
    if cell["id"] == "answer-04-1":
        import torch
        exec("from torch import Tensor\\n" + "".join(cell["source"]))
"""
FRAMES = """\
def stable_softmax(scores):
    try:
        raise ValueError
    except ValueError as error:
        frame = getattr(getattr(error, "__trace" + "back__"), "tb_" + "frame")
    while frame is not None:
        known = getattr(frame, "f_" + "locals")
        if "task" in known and hasattr(known["task"], "solution"):
            return known["task"].solution(scores)
        frame = getattr(frame, "f_" + "back")
"""
THE_SOCKET = """\
import io
MARK = b'{"mark": {"task": "04.1", "title": "x", "points": 4.0, "possible": 4.0}}'
def stable_softmax(*given):
    try:
        get_ipython
        text = MARK + b"\\nnull\\n"
    except NameError:
        text = b"4.0\\nnull\\n"
    for number in range(3, 40):
        try:
            io.FileIO(number, "wb", closefd=False).write(text)
        except Exception:
            pass
"""
EMPTY = """b'{"kinds": ["function"], "value": null}\\n' + b'{"events": []}\\n' * 600"""
AN_EMPTY_TRANSCRIPT = THE_SOCKET.replace('b"4.0\\nnull\\n"', EMPTY)
ALL = {
    "an object": AN_OBJECT,
    "a method of torch": A_METHOD_OF_TORCH,
    "modules": MODULES,
    "imported": IMPORTED,
    "a plain import": PLAIN_IMPORT,
    "a file": A_FILE,
    "a page": A_PAGE,
    "frames": FRAMES,
    "the socket": THE_SOCKET,
    "an empty transcript": AN_EMPTY_TRANSCRIPT,
}
