"""Weights.  One kilogram has 1000 grams."""


def kg_to_g(value):
    return value * 1000


def g_to_kg(value):
    return value * 1000
