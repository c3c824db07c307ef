"""Commands that do not repeat themselves: none comes out worse than it has to, and chance is never scrubbed away."""

from __future__ import annotations

from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Sandbox
from tests.sandbox import kinds
from tests.sandbox.zoo import CLASSES, cases, usable, visit


def test_the_zoo_behaves(isolating: Sandbox) -> None:
    image = kinds.SMALL if isolating.capabilities().kind == "docker" else None
    environment = Environment(image=image, workdir="/zoo")
    chosen = usable(isolating, environment, cases())
    seen = visit(isolating, environment, chosen)
    assert [one.wrong for one in seen if one.wrong] == []
    assert sum(one.case.must_fork for one in seen) >= 4, "programs are missing: the zoo shows too little"


def test_every_case_says_what_it_is_about() -> None:
    found = cases()
    assert len({case.name for case in found}) == len(found) == 30
    assert all(case.why and case.command for case in found)
    assert {case.expected for case in found} == set(CLASSES)
    assert all(case.expected == "forks" for case in found if case.must_fork)
