"""Right and wrong answers to the tasks, which no grader knows: one module an assignment.

`RIGHT` maps a task to different right answers; `WRONG` maps it to pairs of a wrong answer and words
that the verdict must say, as a pattern.
"""
