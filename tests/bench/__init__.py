"""Measurements of the product's own speed: `python -m tests.bench [ID]... [--json] [--scale full|small|tiny]`.

Read this to see what is measured and how.  Each file with an `ID` is one measurement: a docstring, and
`measure(scale) -> Result`.  The others are what they measure with:

result.py       a figure against its target
scale.py        how large a measurement is
workload.py     what the scripted model says, what the scripted environment prints
environment.py  sandboxes that count
counting.py     the scripted model with a real tokenizer
workbench.py    a project on the workload, measured through the product's own evaluation
spent.py        processor time of all processes; powers of growth
page.py         docs/benchmarks.md
"""
