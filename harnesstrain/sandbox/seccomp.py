"""The system calls that no sandboxed process needs: everything that reaches beyond its own sandbox.

A deny list, so that ordinary programs keep working.  Unlike Docker's default profile it allows `personality`, which the
agent needs to switch address space randomisation off.
"""

from __future__ import annotations

import json

DENIED = (
    *("mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount"),
    *("fspick", "mount_setattr", "setns", "unshare", "keyctl", "add_key", "request_key", "bpf", "perf_event_open"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module"),
    *("open_by_handle_at", "name_to_handle_at", "userfaultfd", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "process_vm_writev", "acct", "quotactl", "quotactl_fd", "reboot", "swapon", "swapoff"),
    *("syslog", "settimeofday", "clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64", "adjtimex"),
    *("stime", "iopl", "ioperm", "lookup_dcookie", "nfsservctl", "vm86", "vm86old", "ustat", "sysfs", "_sysctl"),
    *("uselib", "move_pages", "mbind", "set_mempolicy", "kcmp", "fanotify_init", "vhangup"),
)
NAMESPACES = {
    "CLONE_NEWTIME": 0x80,
    "CLONE_NEWNS": 0x20000,
    "CLONE_NEWCGROUP": 0x2000000,
    "CLONE_NEWUTS": 0x4000000,
    "CLONE_NEWIPC": 0x8000000,
    "CLONE_NEWUSER": 0x10000000,
    "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}
AF_VSOCK = 40
EPERM, ENOSYS = 1, 38


def profile() -> str:
    """The filter in the form that Docker takes."""
    rules: list[dict[str, object]] = [_rule(list(DENIED), EPERM)]
    rules.append(_rule(["clone3"], ENOSYS))  # its flags are behind a pointer: programs fall back to clone
    rules.append(_rule(["socket"], EPERM, {"index": 0, "value": AF_VSOCK, "op": "SCMP_CMP_EQ"}))
    for flag in NAMESPACES.values():
        argument = {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
        rules.append(_rule(["clone"], EPERM, argument))
    architectures = [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "archMap": architectures, "syscalls": rules})


def _rule(names: list[str], code: int, *arguments: dict[str, object]) -> dict[str, object]:
    rule: dict[str, object] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code}
    return {**rule, "args": list(arguments)} if arguments else rule
