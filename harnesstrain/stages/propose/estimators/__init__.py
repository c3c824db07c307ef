"""Estimators that come with the product.  Each is one class without constructor arguments.

Read this to learn how a change is made by a queue of patches, by an agent or by a model.  May import: the parent's
base, ledger and evidence, harness, llm, core.

patches.py    `patches`: a directory of patches, each tried once, in order
llm.py        `llm`: one model that writes search/replace edits
briefs.py     what a plain model is told, cut to its context
edits.py      search/replace edits: parsing and applying
agent.py      `agent`: an agent CLI in a jailed worktree, and its options
backends.py   how Claude Code, Codex or any command is called
prompts.py    what an agent is told
programs.py   finding an agent's program and what it needs to run
places.py     the directories an agent sees, and its jail
watch.py      running it under limits
meters.py     what it says about itself: tokens, replies, cost
work.py       what a call came to: transcript, answer, failure; secrets taken out
options.py    reading an estimator's table of ht.toml
"""
