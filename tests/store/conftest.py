"""A store in a temporary folder, and a PostgreSQL server of its own where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / ".ht"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(folder, create=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server that runs for these tests only; `{}` is the database's name."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra 'postgres'")
    found = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(max(found)) if found else None)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed (no initdb)")
    binaries = Path(initdb).resolve().parent
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    if user and not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
        pytest.skip("PostgreSQL does not run as root and there is no user 'postgres'")
    data = Path(tempfile.mkdtemp(prefix="ht-pg-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        if user:
            shutil.chown(data, "postgres", "postgres")
        initialise = [*user, str(binaries / "initdb"), "-D", str(data / "db"), "-U", "ht", "-A", "trust", "-N"]
        subprocess.run(initialise, check=True, capture_output=True, cwd=data)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {data}"
        control = [*user, str(binaries / "pg_ctl"), "-D", str(data / "db"), "-w", "-l", str(data / "log")]
        subprocess.run([*control, "-o", options, "start"], check=True, cwd=data, stdout=subprocess.DEVNULL)
        try:
            yield f"postgresql://ht@127.0.0.1:{port}/{{}}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, cwd=data, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: str, request: pytest.FixtureRequest) -> str:
    """URL of an empty database."""
    import psycopg

    name = f"t{abs(hash(request.node.nodeid))}"
    with psycopg.connect(postgres_server.format("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return postgres_server.format(name)
