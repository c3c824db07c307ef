"""The system call filter, in both of its forms; the kernel's form is interpreted here instruction by instruction."""

from __future__ import annotations

import json
import struct

import pytest

from harnesstrain.core import seccomp

ALLOWED = {"read": (0, 63), "execve": (59, 221), "personality": (135, 92), "ptrace": (101, 117), "chmod": (90, 52)}


def decide(program: bytes, machine: int, number: int, argument: int = 0) -> int:
    """What the kernel would answer."""
    data = struct.pack("<IIQQ", number, machine, 0, argument)
    code = list(struct.iter_unpack("<HBBI", program))
    accumulator = at = 0
    while True:
        kind, true, false, operand = code[at]
        at += 1
        if kind == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif kind == seccomp.RETURN:
            return int(operand)
        else:
            test = {
                seccomp.EQUAL: accumulator == operand,
                seccomp.AT_LEAST: accumulator >= operand,
                seccomp.ANY_BIT: bool(accumulator & operand),
            }[kind]
            at += true if test else false


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_the_kernels_form(name: str) -> None:
    machine, column = seccomp.MACHINES[name]
    program = seccomp.program(name)
    refused = seccomp.ERRNO | seccomp.EPERM
    for numbers in seccomp.NUMBERS.values():
        if numbers[column] is not None:
            assert decide(program, machine, numbers[column]) == refused
    for call in ALLOWED.values():
        assert decide(program, machine, call[column]) == seccomp.ALLOW
    assert decide(program, machine, seccomp.CLONE3[column]) == seccomp.ERRNO | seccomp.ENOSYS
    assert decide(program, machine, seccomp.CLONE[column], 0x01200011) == seccomp.ALLOW
    assert decide(program, machine, seccomp.CLONE[column], 0x10000011) == refused
    assert decide(program, machine, seccomp.SOCKET[column], 2) == seccomp.ALLOW
    assert decide(program, machine, seccomp.SOCKET[column], seccomp.AF_VSOCK) == refused
    assert decide(program, machine + 1, ALLOWED["read"][column]) == seccomp.ERRNO | seccomp.ENOSYS
    assert decide(program, machine, seccomp.X32) == seccomp.ERRNO | seccomp.ENOSYS


def test_an_unknown_machine_has_no_program() -> None:
    assert seccomp.program("pdp11") == b""


def test_dockers_form_denies_the_same_calls() -> None:
    found = json.loads(seccomp.profile())
    assert found["defaultAction"] == "SCMP_ACT_ALLOW"
    denied = {name for rule in found["syscalls"] for name in rule["names"] if "args" not in rule}
    assert denied == {*seccomp.NUMBERS, "clone3"}
    assert "personality" not in denied
