"""Floor 1: a frozen model behind one protocol, and the server in front of it.

Read this to call a model, to cache its replies, or to serve one.  May import: `harnesstrain.core`.  The only room that
imports httpx, starlette and uvicorn; importing the package itself imports none of them.

base.py       the protocols: Model, Engine; what a start of an engine needs
contract.py   what every model must do, as tests that anybody can run
requests.py   digests of messages and requests; the key of the LLM cache
gate.py       asks one thing again and again, alone and in crowds: is the endpoint deterministic?
  probes.py     what it asks
vetted.py     a model within its certificate: so many requests at once, and the sentinels first
cached.py     a model that remembers: cache, coalescing, where a reply came from
client.py     any OpenAI-compatible endpoint as a Model
  transport.py  its HTTP: time limits, retries, no secret in anything raised
  waiting.py    a word now and then while it tries again
  discovery.py  what an endpoint says it is
  inspection.py what more a server tells of a reply when asked
  tokenize.py   token counts in whichever way it offers
wire.py       records to and from OpenAI chat JSON
faults.py     HTTP statuses and error bodies to and from the error tree
scripted.py   a model that follows a script: for tests, benchmarks and demonstrations
  script.py     the rules file
front.py      the HTTP front over any Model
  intake.py     what of an OpenAI request is understood, and what is refused
  lanes.py      first come, first served: how many requests run at once
server.py     an engine with a front: foreground process and its state file
  state.py      who runs, judged by process id and start time
choice.py     which engine `auto` means on this machine
logs.py       the end of a log file
connect.py    from a URL, a running server or an engine to a Model
engines/     what can be served: embedded, external, scripted, sglang, vllm, llamacpp
embedded/    the engine that needs no GPU and no server
models/      model files: where they come from, how they are checked
"""
