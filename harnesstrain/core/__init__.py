"""Floor 0: the words of the project, and nothing that touches the outside.

Read this to learn every record that crosses a room's edge.  May import: the standard library and pydantic.

errors.py       the one error tree: kind, exit code, hint, owner
digests.py      canonical JSON and the one digest function
ids.py          digests as ids: short forms and prefixes
texts.py        text as UTF-8 can hold it
records/        frozen records, one file per noun
ports.py        protocols that a higher floor injects into a lower one (caches)
sections.py     every setting: default, environment variable, whether it is measured
layers.py       one layer of settings, read from TOML with the line of each key
settings.py     ht.toml: layers merged, origins, validation
rewards.py      what a verifier wrote, read strictly
registry.py     plugin points: entry points, loaded lazily
events.py       what is happening: events, observers, the bus
leftovers.py    byte code that is no part of a directory's content
resources.py    where shipped files lie (migrations, tasksets, bootstrap)
confinement.py  what an untrusted process may see and use; starting it so
seccomp.py      the system calls that no confined process needs
cgroups.py      control groups: bounds for all processes of a confinement together
scratch.py      directories that are gone when whoever made them is
packed.py       a directory tree as one file: what a kept state consists of
starter.py      starting many confined processes by forks of one that is ready
forkserver.py   that one: forks launchers
launcher.py     the confined process's parent: mounts, limits, dropping root, clean-up
"""
