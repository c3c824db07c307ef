"""The same store on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from harnesstrain.core.errors import Ambiguous, Busy, Prerequisite, StoreCorrupt, UsageError
from harnesstrain.core.records.verdict import Memo
from harnesstrain.store import Store, migrate, schema
from harnesstrain.store.engine import server_database
from tests.store.making import PANEL, a_rollout, a_run, a_trace, a_verdict, recorded

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from pathlib import Path
from harnesstrain.core.records.verdict import Memo
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_trace, recorded
number = int(sys.argv[3])
with Store.open(sys.argv[1], directory=Path(sys.argv[2]), create=True) as store:
    run = recorded(store, "shared")
    for task in range(8):
        rollout = a_rollout(run, f"task-{number}-{task}")
        store.commit_rollout(rollout, a_trace(rollout))
        common = a_rollout(run, f"task-{task}")
        store.commit_rollout(common, a_trace(common))
        store.put_memo(Memo(id=f"{number * 1000 + task:064x}", text="\\x00 \\ud7ff"))
"""


def test_records_traces_and_completion(postgres: str, folder: Path) -> None:
    with Store.open(postgres, directory=folder, create=True) as store:
        run = recorded(store)
        verdict = a_verdict(run, a_run("other"))
        assert store.put_verdict(verdict) and not store.put_verdict(verdict)
        with pytest.raises(StoreCorrupt):
            store.put_run(run.model_copy(update={"commit": "d" * 40}))
        for task in ("task-0", "task-1"):
            rollout = a_rollout(run, task)
            store.commit_rollout(rollout, a_trace(rollout))
            store.commit_rollout(rollout, a_trace(rollout))
        store.put_memo(Memo(id=run.id[:6] + "0" * 58, text="\x00 é"))
    with Store.open(postgres, directory=folder) as store:
        assert store.run(run.id) == run and store.verdict(verdict.id) == verdict and store.panel(PANEL.digest) == PANEL
        assert store.memo() == Memo(id=run.id[:6] + "0" * 58, text="\x00 é")
        store.complete_run(run.id)
        assert store.is_complete(run.id) and store.summaries()[0].solved == 2
        for rollout in store.rollouts(run.id):
            assert store.trace(rollout.id) == a_trace(rollout)
        assert store.resolve(run.id[:6], kinds=["run"]).id == run.id
        with pytest.raises(Ambiguous):
            store.resolve(run.id[:6])
        assert [finding.problem[:8] for finding in store.fsck()] == ["cand_run"]
        with store.lease("epoch"), pytest.raises(Busy), store.lease("epoch"):
            pass
        assert not (folder / "store.db").exists()


def test_processes_that_write_at_once(postgres: str, folder: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WRITER, postgres, str(folder)]
    writers = [subprocess.Popen([*command, str(n)], cwd=ROOT, stderr=subprocess.PIPE, text=True) for n in range(4)]
    for writer in writers:
        _, said = writer.communicate()
        assert writer.returncode == 0, said
    with Store.open(postgres, directory=folder) as store:
        assert len(store.rollouts(a_run("shared").id)) == 4 * 8 + 8
        assert len(list(store.export("memo"))) == 32
        assert [finding for finding in store.fsck() if finding.kind != "orphan"] == []


def test_migrations_make_the_same_schema(postgres: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    database = server_database(postgres)
    with database.write() as connection:
        migrate._migrate(connection)
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    migrate.require_current(database)
    database.close()


def test_another_schema_and_no_schema(postgres: str, folder: Path) -> None:
    with pytest.raises(Prerequisite, match="no store at"):
        Store.open(postgres, directory=folder)
    Store.open(postgres, directory=folder, create=True).close()
    database = server_database(postgres)
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0000'"))
    database.close()
    with pytest.raises(Prerequisite, match="schema 0000") as caught:
        Store.open(postgres, directory=folder)
    assert "ht db upgrade" in str(caught.value.hint)


def test_a_server_that_is_not_there_and_a_password_that_is_never_said(folder: Path) -> None:
    url = "postgresql+psycopg://ht:hush-hush@127.0.0.1:1/none"
    with pytest.raises(Prerequisite, match="cannot reach") as caught:
        Store.open(url, directory=folder, create=True)
    assert "hush" not in str(caught.value.payload()) and "\n" not in caught.value.message
    with pytest.raises(UsageError, match="folder"):
        Store.open(url)
    with pytest.raises(UsageError, match="no store on 'mysql'"):
        Store.open("mysql://localhost/x", directory=folder)


def test_a_sqlite_url_is_its_folder(folder: Path) -> None:
    Store.open(f"sqlite:///{folder}/store.db", create=True).close()
    Store.open(folder).close()
    with pytest.raises(UsageError, match="folder"):
        Store.open(f"sqlite:///{folder}/other.db", create=True)
