"""What every stage is given.  Devices open when first asked for and stay open, so a loop starts its model once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from harnesstrain.core.events import Bus
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.settings import Settings
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.store import Store

if TYPE_CHECKING:
    from harnesstrain.measure.bench import Devices


@dataclass
class Context:
    """Settings, store, harness repo, events, and a stop signal.  Close it: it closes the devices, not the store."""

    settings: Settings
    store: Store
    repo: HarnessRepo
    state: Path
    """The `.ht` directory."""
    bus: Bus = field(default_factory=Bus)
    stop: StopSignal = field(default_factory=threading.Event)
    environ: Mapping[str, str] = field(default_factory=dict)
    """The caller's environment: read for the one variable that `llm.api_key_env` names, and handed to estimators
    through their allow-lists."""
    _devices: Devices | None = None

    @property
    def devices(self) -> Devices:
        """Model, sandbox and regime, opened on first use.

        Raises Prerequisite (no model, no sandbox), Unsupported (the regime needs more isolation than there is).
        """
        if self._devices is None:
            from harnesstrain.measure.bench import open_devices

            self._devices = open_devices(self)
        return self._devices

    def close(self) -> None:
        """Close the devices that were opened."""
        if self._devices is not None:
            self._devices.close()
            self._devices = None

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
