"""Lengths.  One kilometre has 1000 metres, one metre has 100 centimetres."""


def km_to_m(value):
    return value * 100


def m_to_cm(value):
    return value * 100
