"""One episode: ask the model, act, repeat.

Thin: the model decides when it is done.  Budgets are the driver's; a reply that does not fit ends the episode.
"""

from agent.guards import guard
from agent.history import History
from agent.parsing import Invalid, parse
from agent.prompt import opening
from agent.repair import LIMIT, repair
from agent.tools import execute
from ht_sdk import ContextOverflow


def solve(ep):
    """Drive one episode to its end."""
    history = History(opening(ep))
    invalid = 0
    while invalid < LIMIT:
        try:
            reply = ep.complete(history.messages).content
        except ContextOverflow:
            return
        history.reply(reply)
        try:
            action = parse(reply)
        except Invalid as problem:
            ep.note(valid=False, problem=str(problem))
            invalid += 1
            history.tell(repair(str(problem), reply))
            continue
        ep.note(valid=True)
        invalid = 0
        answer = guard(ep, action, history.done)
        if answer is None:
            if action.tool == "submit":
                ep.submit()
                return
            answer = execute(ep, action)
        history.done.append((action, answer))
        history.tell(answer)
