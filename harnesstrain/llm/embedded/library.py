"""The llama.cpp C API inside the xllamacpp wheel, reached with ctypes; and what must be there for it to load.

The wheel's one shared object exports the whole C API and has no run-time choice of kernels: every machine that can
load it computes the same bits.
"""

from __future__ import annotations

import base64
import ctypes as c
import os
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.llm.embedded.layout import Batch, ContextParams, ModelParams, check_layout

WHEEL = "xllamacpp"
VERSION = "2026.10.11549"
"""The pinned release: struct layouts and kernels are those of this build."""

INSTALL = "pip install 'harnesstrain[embedded]'"
CPU_FLAGS = ("avx2", "fma", "f16c", "bmi2")
"""What the x86-64 wheel was compiled for."""

SYSTEM_LIBRARIES = {
    "libgomp.so.1": "install the system package libgomp1 (Debian, Ubuntu) or libgomp (Fedora, Alpine)",
    "libstdc++.so.6": "install the system package libstdc++6 (Debian, Ubuntu) or libstdc++ (Fedora, Alpine)",
}

_LOG = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)


_silent = _LOG(lambda level, text, data: None)
"""Drops the library's log lines; kept here because the library keeps only its address."""


class Build(Record):
    """Which library build this is: everything about it that can change a bit of a reply."""

    library: str
    """Package and version."""
    digest: str
    """sha256 (hex) of the shared object, from the installed package's own record."""
    isa: str
    """Machine architecture and system."""
    libm: str
    """The C library whose sine, cosine and power the kernels call."""


def shared_object() -> Path:
    """The wheel's shared object.  Raises Prerequisite when the wheel is missing or not the pinned release."""
    return Path(str(_distribution_file().locate()))


@cache
def build() -> Build:
    """The installed build, without loading it.  Raises Prerequisite."""
    recorded = _distribution_file().hash
    if recorded is None or recorded.mode != "sha256":
        raise Prerequisite(f"the installed {WHEEL} has no file hashes", hint=INSTALL)
    padded = recorded.value + "=" * (-len(recorded.value) % 4)
    return Build(
        library=f"{WHEEL} {VERSION}",
        digest=base64.urlsafe_b64decode(padded).hex(),
        isa=f"{platform.machine()} {platform.system().lower()}",
        libm=os.confstr("CS_GNU_LIBC_VERSION") or "" if sys.platform == "linux" else platform.mac_ver()[0],
    )


def check_machine() -> None:
    """Whether the library can be loaded here, cheaply and without loading it.  Raises Prerequisite with what to do."""
    shared_object()
    if sys.platform != "linux":
        return
    if platform.machine() == "x86_64":
        missing = [flag for flag in CPU_FLAGS if flag not in _cpu_flags()]
        if missing:
            raise Prerequisite(
                f"this CPU lacks {', '.join(missing)}, which the embedded engine needs",
                hint="serve a model elsewhere and give its URL with --model-url",
            )
    for name, hint in SYSTEM_LIBRARIES.items():
        try:
            c.CDLL(name)
        except OSError as error:
            raise Prerequisite(f"the system library {name} is missing: {error}", hint=hint) from error
    try:
        metadata.version("numpy")
    except metadata.PackageNotFoundError as error:
        raise Prerequisite("the embedded engine needs numpy", hint=INSTALL) from error


@cache
def load() -> Any:
    """The library as a ctypes handle with typed functions, initialised, silent, its layout checked.

    Raises Prerequisite.  Once per process.
    """
    check_machine()
    path = shared_object()
    try:
        library = c.CDLL(str(path))
    except OSError as error:
        raise Prerequisite(f"the embedded engine's library cannot be loaded: {error}", hint="`ht doctor`") from error
    for name, (result, arguments) in _signatures().items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise Prerequisite(f"{path.name} does not export {name}", hint=INSTALL) from error
        function.restype = result
        function.argtypes = arguments
    library.llama_log_set(_silent, None)
    library.llama_backend_init()
    check_layout(library.llama_model_default_params())
    check_layout(library.llama_context_default_params())
    return library


def _distribution_file() -> Any:
    """The package's record entry of the shared object."""
    try:
        distribution = metadata.distribution(WHEEL)
    except metadata.PackageNotFoundError as error:
        raise Prerequisite(f"the embedded engine needs {WHEEL}", hint=INSTALL) from error
    if distribution.version != VERSION:
        message = f"the embedded engine needs {WHEEL} {VERSION}, not {distribution.version}"
        raise Prerequisite(message, hint=INSTALL)
    for file in distribution.files or ():
        if file.suffix in {".so", ".pyd"} and file.name.startswith(WHEEL):
            return file
    raise Prerequisite(f"the installed {WHEEL} has no shared object", hint=INSTALL)


def _cpu_flags() -> set[str]:
    """Feature flags of the first CPU, as the kernel names them."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def _signatures() -> dict[str, tuple[Any, list[Any]]]:
    """Result and argument types of every function that is called."""
    pointer, i32, flag, size = c.c_void_p, c.c_int32, c.c_bool, c.c_size_t
    floats, ints = c.POINTER(c.c_float), c.POINTER(c.c_int32)
    return {
        "llama_log_set": (None, [_LOG, pointer]),
        "llama_backend_init": (None, []),
        "llama_print_system_info": (c.c_char_p, []),
        "llama_model_default_params": (ModelParams, []),
        "llama_context_default_params": (ContextParams, []),
        "llama_model_load_from_file": (pointer, [c.c_char_p, ModelParams]),
        "llama_model_free": (None, [pointer]),
        "llama_model_get_vocab": (pointer, [pointer]),
        "llama_model_n_ctx_train": (i32, [pointer]),
        "llama_vocab_n_tokens": (i32, [pointer]),
        "llama_vocab_is_eog": (flag, [pointer, i32]),
        "llama_tokenize": (i32, [pointer, c.c_char_p, i32, ints, i32, flag, flag]),
        "llama_token_to_piece": (i32, [pointer, i32, c.c_char_p, i32, i32, flag]),
        "llama_init_from_model": (pointer, [pointer, ContextParams]),
        "llama_free": (None, [pointer]),
        "llama_n_ctx": (c.c_uint32, [pointer]),
        "llama_get_memory": (pointer, [pointer]),
        "llama_memory_clear": (None, [pointer, flag]),
        "llama_memory_seq_rm": (flag, [pointer, i32, i32, i32]),
        "llama_batch_init": (Batch, [i32, i32, i32]),
        "llama_batch_free": (None, [Batch]),
        "llama_decode": (i32, [pointer, Batch]),
        "llama_get_logits_ith": (floats, [pointer, i32]),
        "llama_state_seq_get_size": (size, [pointer, i32]),
        "llama_state_seq_get_data": (size, [pointer, pointer, size, i32]),
        "llama_state_seq_set_data": (size, [pointer, pointer, size, i32]),
    }
