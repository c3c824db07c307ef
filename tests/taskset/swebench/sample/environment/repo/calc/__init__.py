"""Means."""


def mean(values):
    """The mean of numbers."""
    return sum(values) / len(values)


def largest(values):
    """The largest of numbers."""
    return max(values)
