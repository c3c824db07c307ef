"""Estimators that come with the product.  Each is one class without constructor arguments.

patches.py   a directory of patches, each tried once, in order
agent.py     an agent CLI in a jailed worktree
llm.py       one model that writes search/replace edits
edits.py     search/replace edits: parsing and applying
"""
