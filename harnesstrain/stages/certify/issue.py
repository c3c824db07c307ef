"""Several certificates, some made at once, each recorded as it comes: a kill loses only those in the making."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

from harnesstrain.core.errors import Incomplete
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.measure.context import Context


def issue(context: Context, work: Mapping[str, Callable[[], Certificate]], what: str) -> dict[str, Certificate]:
    """Make and record a certificate for each key; `what` names the things in messages.

    A failure starts nothing more and is raised when what runs has ended.  Raises Incomplete when stopped.
    """
    failed = threading.Event()

    def make(one: Callable[[], Certificate]) -> Certificate | None:
        try:
            return None if failed.is_set() or context.stop.is_set() else one()
        except BaseException:
            failed.set()
            raise

    made: dict[str, Certificate] = {}
    failure: BaseException | None = None
    with ThreadPoolExecutor(max_workers=context.settings.measure.jobs, thread_name_prefix="certify") as pool:
        futures = {pool.submit(make, one): key for key, one in work.items()}
        for future in as_completed(futures):
            failure = failure or future.exception()
            if future.exception() is None and (certificate := future.result()) is not None:
                context.store.put_certificate(certificate)
                made[futures[future]] = certificate
    if failure is not None:
        raise failure
    if len(made) < len(work):
        msg = f"certification was stopped after {len(made)} of {len(work)} {what}"
        raise Incomplete(msg, hint="the same command resumes")
    return made
