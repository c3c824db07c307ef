"""The whole loop with an agent: it reads the evidence, changes the harness, and keeps the memo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.trainer import AgenticEstimator, CommandBackend, GreedyMonotonic, Trainer
from tests.project import make_project
from tests.stages.propose.making import CANARY
from tests.stages.propose.modelserver import ModelServer

SKILL = r"""
task=$(sed -n 's/^| \([a-z]*\) | 1 | failed_verification.*/\1/p' /evidence/summary.md | head -1)
if [ -n "$task" ]; then mkdir -p agent/skills; touch agent/skills/$task; fi
echo "Learn $task" > $HT_OUT/proposal.md; echo "Predicted: $task" >> $HT_OUT/proposal.md
(cat /evidence/memo.md; grep '^- epoch' /evidence/ledger.md | wc -l) > $HT_OUT/memo.md
"""
pytestmark = [pytest.mark.local, pytest.mark.usefixtures("jailed")]


def test_an_agent_in_the_loop(tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_project(tmp_path, cache_folder)
    monkeypatch.chdir(made.root)
    optimizer = GreedyMonotonic()
    estimator = AgenticEstimator(backend=CommandBackend("sh", "-c", SKILL))
    environ = made.environment(CANARY=CANARY)
    with Trainer("ht.toml", estimator=estimator, optimizer=optimizer, environ=environ) as trainer:
        losses = []
        for loss in trainer.epochs(2):
            loss.backward()
            optimizer.step()
            losses.append(loss.value)
        store = trainer.context.store
        assert losses == [-1.0, -1.0]
        candidates = list(store.candidates())
        assert [one.hypothesis for one in candidates] == [f"Learn {one.predicted[0]}" for one in candidates]
        assert [[flip.task for flip in verdict.gained] for verdict in store.verdicts()] == [
            list(one.predicted) for one in candidates
        ]
        memo = store.memo()
        assert memo is not None and memo.author == "agent"
        assert memo.text.split() == ["No", "memo", "yet.", "1", "2"]
    assert not any(CANARY.encode() in path.read_bytes() for path in made.root.rglob("*") if path.is_file())


@pytest.mark.parametrize(("name", "variable"), [("claude", "ANTHROPIC_API_KEY"), ("codex", "OPENAI_API_KEY")])
def test_one_epoch_of_a_real_agent_from_the_shell(
    name: str, variable: str, tmp_path: Path, cache_folder: Path, agents: Callable[[str], str]
) -> None:
    made = make_project(tmp_path, cache_folder)
    with ModelServer([SKILL.replace("$HT_OUT", "/out")]) as server:
        text = (made.root / "ht.toml").read_text().replace('estimator = "patches"', 'estimator = "agent"')
        table = f'[estimator.agent]\nbackend = "{name}"\nprogram = "{agents(name)}"\nbase_url = "{server.url}"\n'
        (made.root / "ht.toml").write_text(f'{text}\n{table}model = "any"\n')
        made.git("commit", "-qam", "Let an agent propose")
        ran = made.ht("epoch", "--n", "1", CANARY=CANARY, **{variable: "sk-key-5d1e88aa"})
        assert ran.code == 0, ran.err
    assert "promoted" in ran.err and f"{name} (any)" in ran.err
    assert made.git("log", "-1", "--format=%s", "main").startswith("Learn ")
    assert len(server.received) == 4  # two calls to propose, two for the memo
    received = "".join(server.received)
    kept = [path.read_bytes() for path in made.root.rglob("*") if path.is_file()]
    assert CANARY not in received + ran.out + ran.err and not any(CANARY.encode() in data for data in kept)
    assert not any(b"sk-key-5d1e88aa" in data for data in kept)
