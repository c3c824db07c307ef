"""Measurements of the product's own speed: `python -m tests.bench [ID]... [--json]`.

Each file here but this one and `__main__.py` is one measurement: `ID`, a docstring, and `measure() -> Result`.
"""
