"""One episode: ask the model, act, repeat.  Budgets are the driver's; a conversation that does not fit ends it."""

from agent.guards import before_run, before_submit
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
        answer = act(ep, action, history.done)
        if answer is None:
            return
        history.done.append((action, answer))
        history.tell(answer)


def act(ep, action, done):
    """Do `action` and return what the model is told; None when the work was handed in."""
    if action.tool == "submit":
        answer = before_submit(ep, action, done)
        if answer is None:
            ep.submit()
        return answer

    command = action.arguments["command"]
    return before_run(ep, action, done) or execute(ep, command)
