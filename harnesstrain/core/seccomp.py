"""The system calls that no confined process needs: everything that reaches beyond its own sandbox.

A deny list, so that ordinary programs keep working.  Unlike Docker's default profile it allows `personality`, which the
sandbox's agent needs to switch address space randomisation off.  Two forms: Docker's JSON, and the kernel's own program
for bubblewrap.
"""

from __future__ import annotations

import functools
import json
import platform
import struct
from collections.abc import Iterator

NUMBERS: dict[str, tuple[int, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "process_vm_writev": (311, 271),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "iopl": (172, None),
    "ioperm": (173, None),
    "lookup_dcookie": (212, 18),
    "ustat": (136, None),
    "sysfs": (139, None),
    "uselib": (134, None),
    "move_pages": (279, 239),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "kcmp": (312, 272),
    "fanotify_init": (300, 262),
    "vhangup": (153, 58),
}
"""Denied calls: number on x86_64, on aarch64 (None: there is no such call)."""

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Audit number of the architecture, and its column in the tables."""
CLONE3, CLONE, SOCKET = (435, 435), (56, 220), (41, 198)
X32 = 0x40000000
NAMESPACES = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
"""Flags of clone: time, mount, cgroup, uts, ipc, user, pid and network namespaces."""
AF_VSOCK = 40
EPERM, ENOSYS = 1, 38

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_MACHINE, AT_FIRST_ARGUMENT = 0, 4, 16


def profile() -> str:
    """The filter in the form that Docker takes."""
    rules = [_rule(list(NUMBERS), EPERM)]
    rules.append(_rule(["clone3"], ENOSYS))  # its flags are behind a pointer: programs fall back to clone
    rules.append(_rule(["socket"], EPERM, {"index": 0, "value": AF_VSOCK, "op": "SCMP_CMP_EQ"}))
    for bit in range(32):
        flag = NAMESPACES & (1 << bit)
        if flag:
            argument = {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
            rules.append(_rule(["clone"], EPERM, argument))
    architectures = [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "archMap": architectures, "syscalls": rules})


@functools.cache
def program(machine: str | None = None) -> bytes:
    """The filter as the kernel's program for `machine` (this one when None); empty where its numbers are not known."""
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in _instructions(*known))


def _rule(names: list[str], code: int, *arguments: dict[str, object]) -> dict[str, object]:
    rule: dict[str, object] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code}
    return {**rule, "args": list(arguments)} if arguments else rule


def _instructions(audit: int, column: int) -> Iterator[tuple[int, int, int, int]]:
    """Code, jump if true, jump if false, operand."""
    yield (LOAD, 0, 0, AT_MACHINE)
    yield (EQUAL, 1, 0, audit)
    yield (RETURN, 0, 0, ERRNO | ENOSYS)  # programs of another architecture
    yield (LOAD, 0, 0, AT_NUMBER)
    yield (AT_LEAST, 0, 1, X32)
    yield (RETURN, 0, 0, ERRNO | ENOSYS)
    for numbers in NUMBERS.values():
        number = numbers[column]
        if number is not None:
            yield (EQUAL, 0, 1, number)
            yield (RETURN, 0, 0, ERRNO | EPERM)
    yield (EQUAL, 0, 1, CLONE3[column])
    yield (RETURN, 0, 0, ERRNO | ENOSYS)
    for numbers, test, operand in ((CLONE, ANY_BIT, NAMESPACES), (SOCKET, EQUAL, AF_VSOCK)):
        yield (EQUAL, 0, 4, numbers[column])
        yield (LOAD, 0, 0, AT_FIRST_ARGUMENT)
        yield (test, 0, 1, operand)
        yield (RETURN, 0, 0, ERRNO | EPERM)
        yield (RETURN, 0, 0, ALLOW)
    yield (RETURN, 0, 0, ALLOW)
