"""One episode: a harness version on a task with a seed, driven to an outcome, every exchange recorded.

Read this to learn how a rollout is measured.  May import: store, llm, sandbox, taskset, harness (protocols only), core.

bench.py         what an episode needs: model, sandbox, regime
budget.py        what an episode may still spend; time is recorded time
conversation.py  messages kept once, addressed by handles
recorder.py      steps, messages and rolling digests of one episode
exchange.py      the model boundary: one llm.complete
action.py        the sandbox boundary: one environment action
place.py         where an episode happens: caches first, the real environment when they end
chain.py         the actions so far, and the keys that stand for what they lead to
ground.py        the real environment: kept states, actions executed again, states kept
keeping.py       when a state is kept
flights.py       one making of a value at a time
drift.py         an action executed again that gives something else than its record
dialogue.py      answers the harness until it submits, ends or has spent a budget
episode.py       one attempt: the dialogue, then the outcome
grading.py       the verifier, after the harness is gone
frames.py        where in a verifier's output tests ran, and what came of them
infra.py         the third state of a grade: was it the verifier's own infrastructure that failed?
infra_rules.py   signs of that, as data
plants.py        what in a submitted state can bend the verifier that runs in it, as data
carrying.py      artifacts, carried to a verifier that has an environment of its own
masking.py       values of this machine that a verifier was given, out of what is kept
opening.py       an environment: started, the task's files laid into it, healthy
staging.py       what the driver does itself between the steps of a task
rewarding.py     the reward of a task with several steps
changes.py       where the answer is a change of a checkout: a patch, evaluated in a fresh environment
reexecution.py   a recorded action chain again, in a fresh environment
regrading.py     a rollout's verifier again, where its commands were executed again
playback.py      a recorded rollout again for its harness: the same requests and actions?
evidence.py      what is kept of two outputs that differ
oracle.py        a reference solution, or nothing, graded: is the task sound?
"""
