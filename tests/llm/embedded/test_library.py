"""What is missing is said before anything is loaded; a library that is not the pinned build is refused."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.llm.embedded import library
from harnesstrain.llm.embedded.layout import KNOWN, ContextParams, ModelParams, check_layout


@pytest.fixture
def machine() -> None:
    """A machine that can run the engine, or a skip that says why not."""
    try:
        library.check_machine()
    except Prerequisite as error:
        pytest.skip(f"the embedded engine cannot run here: {error}")


def test_the_installed_build_is_the_pinned_one_and_its_layout_is_known(machine):
    loaded = library.load()
    check_layout(loaded.llama_context_default_params())
    build = library.build()
    assert build.library == f"xllamacpp {library.VERSION}"
    assert len(build.digest) == 64


def test_the_pin_is_the_one_that_is_installed_by_the_extra():
    wanted = [line for line in metadata.requires("harnesstrain") or [] if line.startswith(library.WHEEL)]
    assert [line.partition(";")[0].strip() for line in wanted] == [f"{library.WHEEL}=={library.VERSION}"]


@pytest.mark.parametrize("struct", [ModelParams, ContextParams])
def test_a_struct_that_moved_is_noticed(struct):
    for name, value in KNOWN[struct].items():
        if value is None or isinstance(value, float):
            continue
        right = struct(**{field: known for field, known in KNOWN[struct].items() if known is not None})
        check_layout(right)
        setattr(right, name, not value if isinstance(value, bool) else value + 1)
        with pytest.raises(Prerequisite, match=name):
            check_layout(right)


def test_a_missing_cpu_feature_is_named(monkeypatch, machine):
    if not library._cpu_flags():
        pytest.skip("this machine's CPU has no flags to read")
    monkeypatch.setattr(library, "_cpu_flags", lambda: {"avx2", "fma"})
    with pytest.raises(Prerequisite, match="lacks f16c, bmi2"):
        library.check_machine()


def test_a_missing_system_library_is_named_with_its_package(monkeypatch, machine):
    monkeypatch.setattr(library, "SYSTEM_LIBRARIES", {"libht-none.so.9": "install the system package libht"})
    with pytest.raises(Prerequisite, match=r"libht-none\.so\.9 is missing") as caught:
        library.check_machine()
    assert caught.value.hint == "install the system package libht"


def test_another_release_is_refused(monkeypatch, machine):
    monkeypatch.setattr(library, "VERSION", "1.0")
    with pytest.raises(Prerequisite, match=r"needs xllamacpp 1\.0, not"):
        library.check_machine()


def test_a_missing_wheel_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(library, "WHEEL", "ht-no-such-wheel")
    with pytest.raises(Prerequisite, match="needs ht-no-such-wheel") as caught:
        library.check_machine()
    assert "harnesstrain[embedded]" in caught.value.hint


def test_the_driver_loads_neither_the_library_nor_numpy_nor_httpx():
    code = (
        "import sys; import harnesstrain.llm.embedded.model, harnesstrain.llm.models.pull; "
        "print([name for name in ('numpy', 'xllamacpp', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
