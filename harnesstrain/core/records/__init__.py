"""Frozen records: the only values that cross a room's edge.

base.py         Record: frozen, strict, digestible
llm.py          LlmRequest, Reply, ToolCall, Usage, Sampling, Endpoint
sandbox.py      RunResult, Capabilities, SandboxIdentity, Limits
task.py         Task, Environment, Verifier, Solution, Panel
harness.py      Manifest, HarnessVersion
rollout.py      Outcome, Rollout, Step, Trace
flight.py       Flight: a cell that is being measured right now
run.py          Budgets, Regime, Run
certificate.py  Certificate
candidate.py    Candidate, Proposal, Change
verdict.py      Flip, Levers, Verdict, Promotion, Memo, Epoch
"""
