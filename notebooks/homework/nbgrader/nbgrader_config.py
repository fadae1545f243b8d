"""nbgrader as this homework needs it: run its commands in the folder of this file."""

import os

# The hidden seed: kernels inherit it, and the checks take their sizes and numbers from it.  Students
# see seed 0; `nmtlib homework grade` has 1 unless told otherwise, and the same seed, the same points.
os.environ.setdefault("NMTLIB_HOMEWORK_SEED", "1")

c = get_config()  # noqa: F821 (nbgrader defines it)
c.CourseDirectory.course_id = "nmtlib"
c.Execute.timeout = 60  # seconds a cell, as nmtcourse.homework.marking has
c.Execute.startup_timeout = 300  # of a kernel, on a busy machine
c.OverwriteCells.add_missing_cells = True  # a check that was deleted is put back
