"""The confined process's parent.  Runs alone, before every confined process: it imports as little as it can.

1. a mount namespace of its own (as a normal user: a user namespace first), so that no mount reaches the host;
2. stages what is to be seen: binds with mapped owners, files, the overlay root, its memory;
3. forks; the child joins its control group, takes its limits, leaves root, becomes bubblewrap;
4. waits for the child or for the end of the process that started it, whichever comes first, and cleans up.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import resource
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
PR_SET_CHILD_SUBREAPER = 36
MS_REC, MS_SLAVE = 0x4000, 0x80000
MNT_DETACH = 2
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, AT_RECURSIVE, AT_EMPTY_PATH, AT_FDCWD = 1, 0x8000, 0x1000, -100
MOVE_FROM_FD = 4
ATTR_IDMAP = 0x100000
LAST_ID = 0xFFFFFFFE
MEGABYTE = 1 << 20
INODES = 400_000
"""Files that changes in memory may consist of."""
FAILED = 125
"""Exit code when the confinement could not be made."""

ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ca-certificates", "pki", "mime.types")
ETC_NETWORK = ("resolv.conf", "hosts", "nsswitch.conf", "services", "protocols", "gai.conf")
GROUP = "harnesstrain"
STAGES = ("/mnt", "/media", "/srv", "/opt", "/tmp")
"""Where the mounts are made, in a namespace of their own; the first that hides nothing."""

libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: Any) -> int:
    result: int = getattr(libc, name)(*args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _mount(kind: str, target: str, options: str = "", flags: int = 0) -> None:
    fstype = kind.encode() if kind else None
    _call("mount", kind.encode() or b"none", target.encode(), fstype, flags, options.encode() or None)


# --- control groups -------------------------------------------------------------------------------------------------


def controllers() -> dict[str, tuple[str, int]]:
    """Where a group can be made for each usable controller: its directory and the hierarchy's version."""
    found: dict[str, tuple[str, int]] = {}
    for line in _read("/proc/self/mounts").splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup":
            for name in {"memory", "pids", "cpu"} & set(options.split(",")):
                found[name] = (place, 1)
        elif kind == "cgroup2":
            with contextlib.suppress(OSError):
                for name in {"memory", "pids", "cpu"} & set(_read(f"{place}/cgroup.controllers").split()):
                    found.setdefault(name, (place, 2))
    return {name: where for name, where in found.items() if os.access(where[0], os.W_OK)}


def _settings(spec: dict[str, Any], version: int) -> dict[str, list[tuple[str, str]]]:
    memory = spec["memory_mb"]
    wanted: dict[str, list[tuple[str, str]]] = {}
    if memory:
        size = str(memory * MEGABYTE)
        wanted["memory"] = (
            [("memory.limit_in_bytes", size), ("memory.memsw.limit_in_bytes", size)]
            if version == 1
            else [("memory.max", size), ("memory.swap.max", "0")]
        )
    if spec["pids"]:
        wanted["pids"] = [("pids.max", str(spec["pids"]))]
    if spec["cpus"]:
        quota = str(int(spec["cpus"] * 100_000))
        wanted["cpu"] = [("cpu.cfs_quota_us", quota)] if version == 1 else [("cpu.max", f"{quota} 100000")]
    return wanted


def make_groups(spec: dict[str, Any]) -> dict[str, str]:
    """One group per wanted controller, by controller; those that cannot be made are left out."""
    made: dict[str, str] = {}
    name = f"{GROUP}-{spec['owner']}-{os.urandom(4).hex()}"
    for controller, (place, version) in controllers().items():
        settings = _settings(spec, version).get(controller)
        if not settings:
            continue
        group = f"{place}/{name}"
        try:
            if version == 2 and controller not in _read(f"{place}/cgroup.subtree_control").split():
                _write(f"{place}/cgroup.subtree_control", f"+{controller}")
            os.makedirs(group, exist_ok=True)
            _write(f"{group}/{settings[0][0]}", settings[0][1])
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(group)
            continue
        for file, value in settings[1:]:
            with contextlib.suppress(OSError):  # no swap accounting: nothing to bound
                _write(f"{group}/{file}", value)
        made[controller] = group
    return made


# --- mounts ---------------------------------------------------------------------------------------------------------


def _own_namespaces(heir_of: int | None) -> bool:
    """Enter private namespaces; True when the starter is real root (who can map owners and must drop)."""
    root = os.geteuid() == 0
    if heir_of:
        for kind in ("mnt",) if root else ("user", "mnt"):
            fd = os.open(f"/proc/{heir_of}/ns/{kind}", os.O_RDONLY)
            _call("setns", fd, 0)
            os.close(fd)
        _call("unshare", CLONE_NEWNS)
        return root
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWNS if root else CLONE_NEWNS | CLONE_NEWUSER)
    if not root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
    _mount("", "/", flags=MS_REC | MS_SLAVE)
    return root


def _swapped_owners(uid: int) -> int:
    """A user namespace in which root and `uid` have changed places, for id-mapped mounts."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _call("unshare", CLONE_NEWUSER)
            os.write(ready[1], b"1")
            os.close(go[1])
            os.read(go[0], 1)
        finally:
            os._exit(0)
    os.close(ready[1])
    os.read(ready[0], 1)
    lines = f"0 {uid} 1\n1 1 {uid - 1}\n{uid} 0 1\n{uid + 1} {uid + 1} {LAST_ID - uid}"
    try:
        _write(f"/proc/{child}/uid_map", lines)
        _write(f"/proc/{child}/gid_map", lines)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    finally:
        for fd in (ready[0], *go):
            os.close(fd)
        os.waitpid(child, 0)


def _tree(source: str, owners: int | None, writable: bool) -> int:
    """A detached copy of the mounts at `source`, its owners mapped where the file system can."""
    try:
        tree = _call("syscall", OPEN_TREE, AT_FDCWD, source.encode(), OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, f"cannot show {source}: {os.strerror(error.errno or 0)}") from error
    if owners is not None:
        attributes = (ctypes.c_uint64 * 4)(ATTR_IDMAP, 0, 0, owners)
        try:
            _call("syscall", MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, 32)
        except OSError as error:
            if writable:
                msg = f"{source} cannot be made writable for the confined user: its file system maps no owners"
                raise OSError(error.errno, msg) from error
    return tree


def _place(tree: int, source: str, target: str) -> None:
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        _write(target, "")
    _call("syscall", MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), MOVE_FROM_FD)
    os.close(tree)


def _mount_overlay(spec: dict[str, Any], opened: list[int], here: str, above: list[str], owner: int) -> str:
    overlay = spec["root"]
    lowers = opened[: len(overlay["lowers"])]
    if overlay["upper"] is None:
        changes = f"{here}/changes"
        os.mkdir(changes)
        _mount("tmpfs", changes, f"size={overlay['size_mb']}m,nr_inodes={INODES},mode=0755")
    else:
        changes = f"/proc/self/fd/{opened[-1]}"
    for name in ("fs", "work"):
        os.makedirs(f"{changes}/{name}", exist_ok=True)
        os.chown(f"{changes}/{name}", owner, owner)
    layers = above + [f"/proc/self/fd/{fd}" for fd in lowers]
    kept = "" if spec["real_root"] else ",userxattr"
    options = f"lowerdir={':'.join(layers)},upperdir={changes}/fs,workdir={changes}/work,index=off{kept}"
    target = f"{here}/root"
    os.mkdir(target)
    _mount("overlay", target, options)
    return target


def _stage_place(sources: list[str]) -> str:
    """A directory to mount the stage on: it hides nothing that is to be seen."""
    shown = [os.path.realpath(source) for source in sources]
    for place in STAGES:
        if os.path.isdir(place) and not any(f"{path}/".startswith(f"{place}/") for path in shown):
            return place
    raise OSError(f"none of {', '.join(STAGES)} can hold the mounts")


def stage(spec: dict[str, Any]) -> list[str]:
    """Make every mount; returns bubblewrap's arguments."""
    heir_of = spec["root"]["heir_of"] if spec["root"] else None
    real_root = spec["real_root"] = _own_namespaces(heir_of)
    owner = spec["uid"] if real_root else 0
    binds = spec["binds"]
    owners = _swapped_owners(owner) if real_root and binds else None
    trees = [_tree(bind["source"], owners, bind["writable"]) for bind in binds]
    layers = [*spec["root"]["lowers"], spec["root"]["upper"]] if spec["root"] else []
    opened = [os.open(path, os.O_PATH) for path in layers if path]
    place = _stage_place([bind["source"] for bind in binds] + [path for path in layers if path])
    if not heir_of:
        _mount("tmpfs", place, "mode=0755,size=64m")
    generation = len(os.listdir(place))
    above = [f"{place}/g{number}/changes/fs" for number in reversed(range(generation))]
    here = f"{place}/g{generation}"
    os.mkdir(here)

    args: list[str] = []
    if spec["root"]:
        root = _mount_overlay(spec, opened, here, above, owner)
        args += ["--bind", root, "/"]
    if spec["system"]:
        args += _system(spec)
    args += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    if spec["root"]:
        args += ["--bind", f"{root}/dev/shm", "/dev/shm"]
    args += ["--remount-ro", "/dev"]
    for number, (target, text) in enumerate(spec["files"].items()):
        file = f"{here}/f{number}"
        _write(file, text)
        args += ["--ro-bind", file, target]
    for target in spec["tmpfs"]:
        args += ["--perms", "1777", "--size", str(spec["tmpfs_mb"] * MEGABYTE), "--tmpfs", target]
    for number, (bind, tree) in enumerate(zip(binds, trees, strict=True)):
        target = f"{here}/b{number}"
        _place(tree, bind["source"], target)
        args += ["--bind" if bind["writable"] else "--ro-bind", target, bind["target"]]
    if not spec["root"]:
        args += ["--remount-ro", "/"]
    return args


def _system(spec: dict[str, Any]) -> list[str]:
    args = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            args += ["--symlink", os.readlink(name), name] if not spec["root"] else []
        elif os.path.isdir(name):
            args += ["--ro-bind", name, name]
    if spec["root"]:
        return args
    for name in ETC + (ETC_NETWORK if spec["network"] else ()):
        args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"] if f"/etc/{name}" not in spec["files"] else []
    return args


# --- the child ------------------------------------------------------------------------------------------------------


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _become(spec: dict[str, Any], args: list[str], groups: dict[str, str]) -> NoReturn:
    for group in groups.values():
        _write(f"{group}/cgroup.procs", "0")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, spec["open_files"])
    if spec["file_mb"]:
        _limit(resource.RLIMIT_FSIZE, spec["file_mb"] * MEGABYTE)
    if spec["cpu_seconds"]:
        _limit(resource.RLIMIT_CPU, spec["cpu_seconds"])
    if spec["memory_mb"] and "memory" not in groups:
        _limit(resource.RLIMIT_AS, spec["memory_mb"] * MEGABYTE)
    if spec["cpu_list"]:
        os.sched_setaffinity(0, spec["cpu_list"])
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "500")
    inherited = {name: os.environ[name] for name in spec["inherit"] if name in os.environ}
    if spec["real_root"]:
        os.setgroups([])
        os.setresgid(spec["uid"], spec["uid"], spec["uid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    inner = str(spec["inner_uid"])
    command = list(spec["command"])
    if spec["pids"] and "pids" not in groups:  # counted per user namespace: has to be set inside
        command = [
            "/bin/sh",
            "-c",
            'ulimit -u "$0" 2>/dev/null || ulimit -p "$0"; exec "$@"',
            str(spec["pids"]),
            *command,
        ]
    argv = [spec["bwrap"], "--unshare-all", "--unshare-user", *(["--share-net"] if spec["network"] else [])]
    argv += ["--new-session", "--die-with-parent", *(["--as-pid-1"] if spec["as_pid_1"] else [])]
    argv += [] if spec["nested"] else ["--disable-userns"]
    argv += ["--uid", inner, "--gid", inner, "--hostname", spec["hostname"], "--cap-drop", "ALL"]
    if spec["seccomp"]:
        fd = os.memfd_create("seccomp", 0)
        os.write(fd, spec["seccomp"])
        os.lseek(fd, 0, os.SEEK_SET)
        argv += ["--seccomp", str(fd)]
    argv += [*args, "--chdir", spec["cwd"], "--", *command]
    os.execve(spec["bwrap"], argv, {**spec["env"], **inherited})


def _watch(child: int, owner: int) -> int:
    """Wait until the child ends or its starter does; returns the exit code with everything of it gone."""
    watch = select.poll()
    watch.register(os.pidfd_open(child), select.POLLIN)
    try:
        watch.register(os.pidfd_open(owner), select.POLLIN)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    watch.poll()
    code = -signal.SIGKILL
    ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
    while True:  # as the subreaper: also what the child left
        try:
            ended, status = (ended, status) if ended == child else os.wait()
        except ChildProcessError:
            return code if code >= 0 else 128 - code
        if ended == child:
            code, ended = os.waitstatus_to_exitcode(status), 0


def main(text: str) -> NoReturn:
    """Confine and wait; the exit code is the command's.  `text`: the specification, in hexadecimal marshal format."""
    spec: dict[str, Any] = marshal.loads(bytes.fromhex(text))
    groups: dict[str, str] = {}
    code = FAILED
    with contextlib.suppress(PermissionError):
        os.setsid()
    try:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.umask(0o022)
        args = stage(spec)
        groups = make_groups(spec) if spec["real_root"] else {}
        child = os.fork()
        if child == 0:
            _become(spec, args, groups)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
        code = _watch(child, spec["owner"])
    except OSError as error:
        os.write(2, f"confinement: {error}\n".encode())
    finally:
        for group in set(groups.values()):
            with contextlib.suppress(OSError):
                os.rmdir(group)
        os._exit(code)
