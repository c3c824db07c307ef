"""The confined process's parent.  Runs alone, before every confined process: it imports as little as it can.

1. a mount namespace of its own (as a normal user: a user namespace first), so that no mount reaches the host;
2. stages what is to be seen: binds with mapped owners, files, the overlay root, its memory;
3. forks; the child joins its control group, takes its limits, leaves root, becomes bubblewrap;
4. waits for the child or for the end of the process that started it, whichever comes first, and cleans up.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn

    from harnesstrain.core import cgroups
else:
    import _signal as signal  # without the names of its numbers, which take longer than the rest

    import cgroups  # beside this file: the launcher runs without the package

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
PR_SET_CHILD_SUBREAPER = 36
MS_REC, MS_SLAVE, MS_NOATIME = 0x4000, 0x80000, 0x400
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
STAGES = ("/mnt", "/media", "/srv", "/opt", "/tmp")
"""Where the mounts are made, in a namespace of their own; the first that hides nothing."""

libc = ctypes.CDLL(None, use_errno=True)
_swapped: dict[int, int] = {}


def call(name: str, *args: Any) -> int:
    """Call a function of the C library.  Raises OSError."""
    result: int = getattr(libc, name)(*args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _mount(kind: str, target: str, options: str = "", flags: int = 0) -> None:
    fstype = kind.encode() if kind else None
    call("mount", kind.encode() or b"none", target.encode(), fstype, flags, options.encode() or None)


def _own_namespaces(heir_of: int | None) -> bool:
    """Enter private namespaces; True when the starter is real root (who can map owners and must drop)."""
    root = os.geteuid() == 0
    if heir_of:
        for kind in ("mnt",) if root else ("user", "mnt"):
            fd = os.open(f"/proc/{heir_of}/ns/{kind}", os.O_RDONLY)
            call("setns", fd, 0)
            os.close(fd)
        call("unshare", CLONE_NEWNS)
        return root
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWNS if root else CLONE_NEWNS | CLONE_NEWUSER)
    if not root:
        cgroups.write("/proc/self/setgroups", "deny")
        cgroups.write("/proc/self/uid_map", f"0 {uid} 1")
        cgroups.write("/proc/self/gid_map", f"0 {gid} 1")
    _mount("", "/", flags=MS_REC | MS_SLAVE)
    return root


def _user_namespace(lines: str, creator: int = 0) -> int:
    """A user namespace with the id map `lines`, owned by the host user `creator`."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if creator:
                os.setresgid(creator, creator, creator)
                os.setresuid(creator, creator, creator)
            call("unshare", CLONE_NEWUSER)
            os.write(ready[1], b"1")
            os.close(go[1])
            os.read(go[0], 1)
        finally:
            os._exit(0)
    os.close(ready[1])
    os.read(ready[0], 1)
    try:
        cgroups.write(f"/proc/{child}/uid_map", lines)
        cgroups.write(f"/proc/{child}/gid_map", lines)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    finally:
        for fd in (ready[0], *go):
            os.close(fd)
        os.waitpid(child, 0)


def swapped_owners(uid: int) -> int:
    """A user namespace in which root and `uid` have changed places, for id-mapped mounts; made once for a user."""
    if uid not in _swapped:
        _swapped[uid] = _user_namespace(f"0 {uid} 1\n1 1 {uid - 1}\n{uid} 0 1\n{uid + 1} {uid + 1} {LAST_ID - uid}")
    return _swapped[uid]


def _tree(source: str, owners: int | None, writable: bool, owner: int) -> int:
    """A detached copy of the mounts at `source`, its owners mapped where the file system can.

    Where it cannot, what is writable has to be the confined user's own already.
    """
    try:
        tree = call("syscall", OPEN_TREE, AT_FDCWD, source.encode(), OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, f"cannot show {source}: {os.strerror(error.errno or 0)}") from error
    if owners is not None:
        attributes = (ctypes.c_uint64 * 4)(ATTR_IDMAP, 0, 0, owners)
        try:
            call("syscall", MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, 32)
        except OSError as error:
            if writable and os.stat(source).st_uid != owner:
                msg = f"{source} cannot be made writable for the confined user: its file system maps no owners"
                raise OSError(error.errno, msg) from error
    return tree


def _place(tree: int, source: str, target: str) -> None:
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        cgroups.write(target, "")
    call("syscall", MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), MOVE_FROM_FD)
    os.close(tree)


def _mount_overlay(spec: dict[str, Any], opened: list[int], here: str, above: list[str], owner: int) -> str:
    overlay = spec["root"]
    lowers = opened[: len(overlay["lowers"])]
    if overlay["upper"] is None:
        changes = f"{here}/changes"
        os.mkdir(changes)
        _mount("tmpfs", changes, f"size={overlay['size_mb']}m,nr_inodes={INODES},mode=0755", MS_NOATIME)
    else:
        changes = f"/proc/self/fd/{opened[len(lowers)]}"
    for name in ("fs", "work"):
        os.makedirs(f"{changes}/{name}", exist_ok=True)
        os.chown(f"{changes}/{name}", owner, owner)
    if overlay["start"]:
        _fill(f"{changes}/fs", opened[-1], spec["real_root"])
    layers = above + [f"/proc/self/fd/{fd}" for fd in lowers]
    options = "index=off,metacopy=off," + ("redirect_dir=off" if spec["real_root"] else "userxattr")
    options = f"lowerdir={':'.join(layers)},upperdir={changes}/fs,workdir={changes}/work,{options}"
    target = f"{here}/root"
    os.mkdir(target)
    _mount("overlay", target, options, MS_NOATIME)
    return target


def _fill(upper: str, state: int, owners: bool) -> None:
    if TYPE_CHECKING:
        from harnesstrain.core import packed
    else:
        import packed  # beside this file; seldom needed
    packed.unpack(state, upper, owners)


def _stage_place(sources: list[str]) -> str:
    """A directory to mount the stage on: it hides nothing that is to be seen."""
    shown = [os.path.realpath(source) for source in sources]
    for place in STAGES:
        if os.path.isdir(place) and not any(f"{path}/".startswith(f"{place}/") for path in shown):
            return place
    raise OSError(f"none of {', '.join(STAGES)} can hold the mounts")


def _generation(place: str) -> tuple[list[str], str]:
    """The changes this root inherits, topmost first, and a directory of its own.  Forks share the stage's names."""
    earlier = sorted((int(name[1:]) for name in os.listdir(place)), reverse=True)
    changes = [f"{place}/g{number}/changes/fs" for number in earlier]
    number = earlier[0] + 1 if earlier else 0
    while True:
        with cgroups.suppress(FileExistsError):
            os.mkdir(f"{place}/g{number}")
            return [path for path in changes if os.path.isdir(path)], f"{place}/g{number}"
        number += 1


def stage(spec: dict[str, Any]) -> list[str]:
    """Make every mount; returns bubblewrap's arguments."""
    heir_of = spec["root"]["heir_of"] if spec["root"] else None
    real_root = spec["real_root"] = _own_namespaces(heir_of)
    owner = spec["uid"] if real_root else 0
    binds = spec["binds"]
    owners = swapped_owners(owner) if real_root and binds else None
    trees = [_tree(bind["source"], owners, bind["writable"], owner) for bind in binds]
    layers = [*spec["root"]["lowers"], spec["root"]["upper"]] if spec["root"] else []
    opened = [os.open(path, os.O_PATH) for path in layers if path]
    if spec["root"] and spec["root"]["start"]:
        opened.append(os.open(spec["root"]["start"], os.O_RDONLY | os.O_NOFOLLOW))
    place = _stage_place([bind["source"] for bind in binds] + [path for path in layers if path])
    if not heir_of:
        _mount("tmpfs", place, "mode=0755,size=64m")
    above, here = _generation(place)

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
        cgroups.write(file, text)
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


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _become(spec: dict[str, Any], args: list[str], groups: dict[str, str]) -> NoReturn:
    for group in groups.values():
        cgroups.write(f"{group}/cgroup.procs", "0")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, spec["open_files"])
    if spec["root"]:
        _limit(resource.RLIMIT_MSGQUEUE, 0)  # state that no file shows
    if spec["file_mb"]:
        _limit(resource.RLIMIT_FSIZE, spec["file_mb"] * MEGABYTE)
    if spec["cpu_seconds"]:
        _limit(resource.RLIMIT_CPU, spec["cpu_seconds"])
    if spec["memory_mb"] and "memory" not in groups:
        _limit(resource.RLIMIT_AS, spec["memory_mb"] * MEGABYTE)
    if spec["cpu_list"]:
        os.sched_setaffinity(0, spec["cpu_list"])
    with cgroups.suppress(OSError):
        cgroups.write("/proc/self/oom_score_adj", "500")
    many = spec["real_root"] and spec["uids"] > 1
    users = _user_namespace(f"0 {spec['uid']} {spec['uids']}", spec["uid"]) if many else -1
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
    argv = [spec["bwrap"], "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    argv += [] if spec["network"] else ["--unshare-net"]
    argv += ["--new-session", "--die-with-parent", *(["--as-pid-1"] if spec["as_pid_1"] else [])]
    if many:
        os.set_inheritable(users, True)
        argv += ["--userns", str(users)]
    else:
        argv += ["--unshare-user", *([] if spec["nested"] else ["--disable-userns"])]
    argv += ["--uid", inner, "--gid", inner, "--hostname", spec["hostname"], "--cap-drop", "ALL"]
    argv += [word for name in spec["capabilities"] if many for word in ("--cap-add", name)]
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
    ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with cgroups.suppress(ChildProcessError):  # nothing is left
        while True:  # a child that is killed while it starts leaves its own half-made child to us, the subreaper
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                for left in _children():
                    with cgroups.suppress(ProcessLookupError):
                        os.kill(left, signal.SIGKILL)
                os.wait()
    return code if code >= 0 else 128 - code


def _children() -> list[int]:
    """The processes whose parent this one is."""
    mine = str(os.getpid())
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with cgroups.suppress(OSError):
                parent = cgroups.read(f"/proc/{name}/stat").rpartition(")")[2].split()[1]
                if parent == mine:
                    found.append(int(name))
    return found


def main(text: str) -> NoReturn:
    """`confine`, when started alone.  `text`: the specification, in hexadecimal marshal format."""
    confine(marshal.loads(bytes.fromhex(text)))


def confine(spec: dict[str, Any]) -> NoReturn:
    """Confine and wait; the exit code is the command's."""
    groups: dict[str, str] = {}
    code = FAILED
    with cgroups.suppress(PermissionError):
        os.setsid()
    try:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.umask(0o022)
        args = stage(spec)
        groups = cgroups.make(spec) if spec["real_root"] else {}
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            _become(spec, args, groups)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        code = _watch(child, spec["owner"])
    except OSError as error:
        os.write(2, f"confinement: {error}\n".encode())
    finally:
        cgroups.remove(groups)
        os._exit(code)
