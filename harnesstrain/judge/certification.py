"""Looking up certificates.  An env certificate is inherited only when regime, task digest and chain digest all match, a
harness certificate only when commit, task digest, requests and chain do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.judge.comparison import NOT_CERTIFIED


class CertifiedCell(Record):
    """What is known of one cell's environment."""

    task: str
    seed: int
    result: str
    """exact, equivalent, no_chain, forked or not_certified."""
    certificate: Certificate | None = None

    @property
    def reproduced(self) -> bool:
        """Whether the chain was reproduced, or there was none to reproduce."""
        return self.result in (Certified.EXACT, Certified.EQUIVALENT, Certified.NO_CHAIN)


_Played = tuple[str | None, str | None, int | None, str | None, str | None]
"""Commit, task digest, seed, requests, chain: what a harness certificate is of."""


class Evidence:
    """Env certificates of one regime by (task digest, chain), and forks of harnesses; notes which were consulted.

    Of what was certified again, for one seed, the last certificate counts.
    """

    def __init__(self, regime: str, certificates: Iterable[Certificate]) -> None:
        certificates = list(certificates)
        self.consulted: set[str] = set()
        """Ids of the certificates that any answer rests on."""
        last: dict[tuple[str | None, str | None, int | None], Certificate] = {}
        for one in certificates:
            if one.kind == "env" and one.regime == regime:
                last[one.task_digest, one.chain, one.seed] = one
        self._harness = _forks_of_harnesses(certificates)
        self._found: dict[tuple[str | None, str | None], list[Certificate]] = {}
        for one in last.values():
            self._found.setdefault((one.task_digest, one.chain), []).append(one)

    def of(self, rollout: Rollout) -> Sequence[Certificate]:
        """The certificates of a rollout's chain."""
        found = self._found.get((rollout.task_digest, rollout.chain_digest), [])
        self.consulted.update(one.id for one in found)
        return found

    def forked(self, rollout: Rollout) -> Certificate | None:
        """The certificate that says this chain forked, if one does.  One fork outweighs any number of successes."""
        return next((one for one in self.of(rollout) if one.result is Certified.FORKED), None)

    def parted(self, commit: str, rollout: Rollout) -> Certificate | None:
        """The certificate that says that the harness did something else when this rollout was played back."""
        found = self._harness.get(_played(commit, rollout, rollout.requests_digest, rollout.chain_digest))
        if found is None:
            return None
        self.consulted.add(found.id)
        return found

    def repeats(self, commit: str) -> bool:
        """Whether no playback of this version showed that it does not repeat itself."""
        forks = [one for one in self._harness.values() if one.commit == commit]
        self.consulted.update(one.id for one in forks)
        return not forks


def _played(commit: str | None, played: Rollout | Certificate, requests: str | None, chain: str | None) -> _Played:
    return (commit, played.task_digest, played.seed, requests, chain)


def _forks_of_harnesses(certificates: Iterable[Certificate]) -> dict[_Played, Certificate]:
    """Forked harness certificates by what was played back.  The last playback counts."""
    last = {_played(one.commit, one, one.requests, one.chain): one for one in certificates if one.kind == "harness"}
    return {key: one for key, one in last.items() if one.result is Certified.FORKED}


def unsteady(commit: str, certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """The playbacks that showed that this version does not repeat itself."""
    return tuple(one for one in _forks_of_harnesses(certificates).values() if one.commit == commit)


def certification(
    regime: str, rollouts: Iterable[Rollout], certificates: Iterable[Certificate]
) -> tuple[CertifiedCell, ...]:
    """What is known of each rollout's environment, in the order given."""
    evidence = Evidence(regime, certificates)
    return tuple(_cell(rollout, evidence) for rollout in rollouts)


def _cell(rollout: Rollout, evidence: Evidence) -> CertifiedCell:
    found = evidence.of(rollout)
    cert = evidence.forked(rollout) or (found[0] if found else None)
    if cert is not None:
        result = cert.result.value
    else:
        result = NOT_CERTIFIED if rollout.chain_digest is not None else Certified.NO_CHAIN.value
    return CertifiedCell(task=rollout.task, seed=rollout.seed, result=result, certificate=cert)
