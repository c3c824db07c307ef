"""The conversation, and how much of an output stays in it.

A message that was sent stays as it was, so that the model server can go on from what it has already read.
"""

LIMIT = 4000
"""Characters of one command's output that are kept."""


def clip(text):
    """`text`, or what is kept of it.

    Thin: the start.  What a long output says at its end is lost.
    """
    if len(text) <= LIMIT:
        return text
    return text[:LIMIT] + "\n(cut: {} more characters)".format(len(text) - LIMIT)


class History:
    """The messages so far, and what was done."""

    def __init__(self, opening):
        self.messages = list(opening)
        self.done = []

    def reply(self, text):
        """Add what the model said."""
        self.messages.append({"role": "assistant", "content": text})

    def tell(self, text):
        """Add what the model is told."""
        self.messages.append({"role": "user", "content": text})
