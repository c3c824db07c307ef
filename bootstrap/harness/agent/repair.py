"""What the model is told when its reply is no action."""

LIMIT = 3
"""Invalid replies in a row after which the episode is given up."""


def repair(problem, reply):
    """The message after an invalid `reply`; `problem` says what is wrong with it.

    Thin: one fixed sentence.  It names neither the problem nor the format.
    """
    return "Your reply was not valid. Try again."
