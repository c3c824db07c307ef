"""The embedded engine: a real small model on the CPU, with nothing but a wheel and a model file.

Read this to understand why its replies are a function of (weights, library, profile, prompt, sampling) and of nothing
else.  May import: `harnesstrain.core` and `harnesstrain.llm.models`; numpy and the library in worker processes.

model.py      EmbeddedModel: the room's Model protocol over a pool
pool.py       worker processes and the requests waiting for them
routing.py    which worker takes which request
process.py    the pool's side of one worker process
worker.py     the worker process itself
channel.py    messages between the two
jobs.py       what passes between the pool and its workers; constants of the evaluation
evaluator.py  one whole completion: prefill, decode, stop
streams.py    resident KV streams: prefixes kept between requests
context.py    decode calls and KV memory: chunks, kernel profile
weights.py    a loaded model file; tokens
sampler.py    the next token: counter-based noise, float64 softmax
chatml.py     conversations to prompt text, tools included
toolcalls.py  tool calls in reply text
library.py    the C API in the wheel; what must be there for it to load
layout.py     its structs, checked against the library's own defaults
"""
