"""Floor 1: a frozen model behind one protocol, and the server in front of it.

Read this to call a model, to cache its replies, or to serve one.  May import: `harnesstrain.core`.  The only room that
imports httpx, starlette and uvicorn; importing the package itself imports none of them.

base.py      the protocols: Model, Engine; what a start of an engine needs
requests.py  digests of messages and requests; the key of the LLM cache
cached.py    a model that remembers: cache, coalescing, where a reply came from
client.py    any OpenAI-compatible endpoint, over httpx
wire.py      records to and from OpenAI chat JSON
scripted.py  a model that follows a script: for tests, benchmarks and demonstrations
front.py     the HTTP front over any Model
queueing.py  first come, first served: how many requests run at once
server.py    running a front in the foreground, or detached with a state file
connect.py   from a URL, a running server or an engine to a Model
engines/     what can be served: embedded, external, scripted, sglang, vllm, llamacpp
embedded/    the engine that needs no GPU and no server
models/      model files: where they come from, how they are checked
"""
