"""What can be served: classes with `start(spec) -> Model`, registered in the group `harnesstrain.engines`.

Read this to add an engine.  May import: `harnesstrain.core`, `harnesstrain.llm`.

refusal.py    what an engine cannot honour, it refuses
embedded.py   the engine that needs no GPU and no server
external.py   any OpenAI-compatible URL, passed through
scripted.py   a rules file
process.py    a server program as a process of its own: start, health, log, end
  tether.py     the process in between, which ends the program when its owner goes
gpus.py       what GPUs there are, and whether they are free
installed.py  a command line read by the installed server's own parser
flags.py      extra flags, and what identifies a model's files
sglang.py     SGLang
vllm.py       vLLM
llamacpp.py   llama-server and a GGUF file
"""
