"""Right and wrong answers to the tasks, which no grader knows: one module an assignment.

`RIGHT` and `WRONG` map a task to such answers.
"""
