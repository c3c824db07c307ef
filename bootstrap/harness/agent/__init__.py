"""The harness around the model: the program that is trained.

loop.py      one episode: ask the model, act, repeat
prompt.py    the opening messages, from prompts/*.md
parsing.py   a model's reply -> an Action, or why it is none
repair.py    what the model is told when its reply is no action
tools.py     what an Action does, and what the model sees of it
guards.py    a look at an Action before it is done
history.py   the conversation, and how much of an observation stays in it
"""
