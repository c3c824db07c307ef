"""`patches`: a directory of patches, each tried once, in name order.  For A/B tests of hand-written variants.

A patch may carry mail headers: `Subject:` is its hypothesis (a leading `[PATCH …]` is dropped), `Predicted:` names the
tasks expected to flip, comma-separated.  Without a subject the file's name is the hypothesis.
"""

from __future__ import annotations

import re
from pathlib import Path

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.errors import ConfigError, ProposalFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Proposal
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.texts import whole
from harnesstrain.harness.patching import apply_patch
from harnesstrain.stages.propose.base import Diagnosis, Evidence, Workshop
from harnesstrain.stages.propose.estimators.options import read_options
from harnesstrain.stages.propose.ledger import facts_memo


class PatchesOptions(Record):
    """[estimator.patches]."""

    dir: str
    """Directory with `*.patch` and `*.diff` files, relative to ht.toml."""


class PatchQueue:
    """The next patch that was never tried, on whatever the baseline is now."""

    name = "patches"

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        """Apply the next patch.

        Raises ProposalFailure when it cannot be read or does not apply; it then counts as tried.
        """
        tried = {item.source for item in evidence.ledger}
        for patch in _queue(workshop):
            name = whole(patch.name)
            data, why = _content(patch)
            source = f"{name}@{digest_bytes(data)[:12] if data is not None else 'unreadable'}"
            if source in tried:
                continue
            if data is None:
                msg = f"{name} cannot be read: {why}; mend it or take it out of the queue"
                raise ProposalFailure(msg, hint=f"`ls -l {patch.parent}`", source=source, hypothesis=name)
            hypothesis, predicted = _headers(patch, data)
            try:
                apply_patch(workshop.worktree, patch)
            except ConfigError as error:
                msg = f"{name} does not apply to {evidence.base[:8]}: {error.message}"
                hint = "rebase the patch onto the promoted baseline"
                raise ProposalFailure(msg, hint=hint, source=source, hypothesis=hypothesis) from error
            return Proposal(hypothesis=hypothesis, predicted=predicted, source=source)
        return None

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        """A queue has no opinion: the memo is made of facts."""
        return Diagnosis(memo=facts_memo(evidence, outcome))


def _queue(workshop: Workshop) -> list[Path]:
    directory = workshop.resolve(read_options(PatchesOptions, PatchQueue.name, workshop.options).dir)
    if not directory.is_dir():
        msg = f"no patch directory at {directory}"
        raise ConfigError(
            msg, hint=f"`mkdir {directory}` and add a *.patch file, or set [estimator.patches] dir in ht.toml"
        )
    return sorted(path for path in directory.iterdir() if path.suffix in (".patch", ".diff"))


def _content(patch: Path) -> tuple[bytes | None, str]:
    """The bytes of a patch; None with the reason where there are none."""
    try:
        if patch.exists() and not patch.is_file():
            return None, "it is a directory" if patch.is_dir() else "it is no file"
        return patch.read_bytes(), ""
    except OSError as error:
        return None, error.strerror or type(error).__name__


def _headers(patch: Path, data: bytes) -> tuple[str, tuple[str, ...]]:
    text = data.decode("utf-8", "replace")
    head = re.split(r"^(?:---|diff --git )", text, maxsplit=1, flags=re.MULTILINE)[0]
    subject = re.search(r"^Subject:\s*(.+(?:\n[ \t]+.+)*)", head, re.MULTILINE)
    predicted = re.search(r"^Predicted:\s*(.+)", head, re.MULTILINE)
    title = " ".join(subject.group(1).split()) if subject else whole(patch.stem)
    title = re.sub(r"^\[PATCH[^\]]*\]\s*", "", title)
    names = tuple(name.strip() for name in predicted.group(1).split(",") if name.strip()) if predicted else ()
    return title, names
