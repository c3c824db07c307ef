"""Where cells execute.  An executor runs a function on a cell somewhere and returns a future; it writes nothing.

base.py    the Executor protocol
local.py   threads of this process (each rollout waits for a model and a sandbox, so threads are enough)
"""
