"""nbgrader as this homework needs it: run its commands in the folder of this file."""

c = get_config()  # noqa: F821 (nbgrader defines it)
c.CourseDirectory.course_id = "nmtlib"
c.Execute.timeout = 60  # seconds a cell, as nmtcourse.homework.marking has
c.Execute.startup_timeout = 300  # of a kernel, on a busy machine
c.OverwriteCells.add_missing_cells = True  # a check that was deleted is put back
