"""The local root filesystem: the host's read-only system directories, and a small generated rest.

/usr is the host's own, shown read-only.  Everything else (/etc, /root, /home, /tmp, /var…) is generated once per host
state, owned by the sandbox user, and is the lowest layer of every local sandbox.
"""

from __future__ import annotations

import functools
import os
import platform
import posixpath
import shutil
from pathlib import Path

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.sandbox.pins import HOSTNAME, cpu_files

LAYOUT = 3
"""Version of what is generated here."""

SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FOLDERS = (
    *("usr", "proc", "dev", "etc", "root", "home", "opt", "srv", "mnt", "media", "run"),
    *("var/lib", "var/log", "var/cache", "dev/shm", "tmp", "var/tmp"),
)
STICKY = ("tmp", "var/tmp", "dev/shm")
FROM_HOST = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "mime.types", "magic", "perl"),
    *("login.defs", "default/useradd", "skel", "pam.d", "security", "adduser.conf", "deluser.conf"),
)
"""Below /etc: what the programs in /usr need.  Only what everybody may read."""
PACKAGE_LISTS = ("var/lib/dpkg/status", "lib/apk/db/installed", "var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm")
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin")

ACCOUNTS = (
    ("root", 0, "/root", "/bin/bash"),
    ("daemon", 1, "/usr/sbin", "/usr/sbin/nologin"),
    ("bin", 2, "/bin", "/usr/sbin/nologin"),
    ("mail", 8, "/var/mail", "/usr/sbin/nologin"),
    ("www-data", 33, "/var/www", "/usr/sbin/nologin"),
    ("nobody", 65534, "/nonexistent", "/usr/sbin/nologin"),
)
GROUPS = (("root", 0), ("daemon", 1), ("bin", 2), ("mail", 8), ("shadow", 42), ("www-data", 33), ("nogroup", 65534))


@functools.cache
def identity(host: Path = Path("/")) -> str:
    """Digest of the host's system directories: release, packages, and name and size of every program."""
    facts: dict[str, object] = {"layout": LAYOUT, "machine": platform.machine()}
    for name in ("etc/os-release", *PACKAGE_LISTS):
        path = host / name
        if path.is_file():
            facts[name] = digest_bytes(path.read_bytes())
    for name in PROGRAM_FOLDERS:
        if (host / name).is_dir():
            with os.scandir(host / name) as found:
                facts[name] = sorted([item.name, item.stat().st_size if item.is_file() else 0] for item in found)
    return digest(facts)


def read_only(path: str, host: Path = Path("/")) -> str | None:
    """The directory of the host that a sandbox shows read-only at `path`; None where it can write."""
    top = posixpath.normpath(path).strip("/").partition("/")[0]
    if top in SYSTEM_LINKS and (host / top).is_symlink():
        return f"/{(host / top).readlink()}"
    shown = top in ("usr", "proc") or (top in SYSTEM_LINKS and (host / top).is_dir())
    return f"/{top}" if shown else None


def generate(target: Path, host: Path = Path("/")) -> None:
    """Write the generated part to `target`, which must not exist."""
    for name in FOLDERS:
        (target / name).mkdir(parents=True, exist_ok=True)
    for name in STICKY:
        (target / name).chmod(0o1777)
    (target / "root").chmod(0o700)
    for name in SYSTEM_LINKS:
        if (host / name).is_symlink():
            (target / name).symlink_to((host / name).readlink())
        elif (host / name).is_dir():
            (target / name).mkdir()
    for path, text in {**_etc(), **cpu_files(1)}.items():
        file = target / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (target / "etc/shadow").chmod(0o640)
    (target / "etc/os-release").symlink_to("../usr/lib/os-release")
    (target / "etc/mtab").symlink_to("/proc/self/mounts")
    (target / "var/run").symlink_to("/run")
    for name in FROM_HOST:
        _copy_public(host / "etc" / name, target / "etc" / name)


def hand_over(tree: Path, owner: int) -> None:
    """Make everything in `tree` belong to `owner`."""
    os.lchown(tree, owner, owner)
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.lchown(Path(folder) / name, owner, owner)


def _etc() -> dict[str, str]:
    passwd = "".join(f"{name}:x:{uid}:{uid}:{name}:{home}:{shell}\n" for name, uid, home, shell in ACCOUNTS)
    return {
        "/etc/passwd": passwd,
        "/etc/group": "".join(f"{name}:x:{gid}:\n" for name, gid in GROUPS),
        "/etc/shadow": "".join(f"{name}:*:19000:0:99999:7:::\n" for name, *_ in ACCOUNTS),
        "/etc/hostname": f"{HOSTNAME}\n",
        "/etc/hosts": f"127.0.0.1\tlocalhost {HOSTNAME}\n::1\tlocalhost\n",
        "/etc/resolv.conf": "",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "/etc/shells": "/bin/sh\n/bin/bash\n",
        "/etc/fstab": "",
    }


def _copy_public(source: Path, target: Path) -> None:
    """Copy what everybody may read; links stay links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        target.mkdir(exist_ok=True)
        for item in sorted(source.iterdir()):
            _copy_public(item, target / item.name)
    elif source.is_file() and source.stat().st_mode & 0o004:
        shutil.copyfile(source, target)
