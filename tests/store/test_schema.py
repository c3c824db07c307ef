"""One schema, said three times: metadata, migrations, the committed file.  And what happens when they differ."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from harnesstrain.core.errors import Prerequisite, StoreCorrupt
from harnesstrain.core.resources import shipped
from harnesstrain.store import Store, migrate, schema
from harnesstrain.store.engine import sqlite_database
from tests.store.making import recorded

GOLDEN = Path(__file__).parent.parent / "golden" / "schema.sql"

SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = depends_on = None


def upgrade():
    with op.batch_alter_table("runs") as batch:
        batch.add_column(sa.Column("extra", sa.Text()))
    {more}
"""


def dumped(file: Path) -> str:
    """The schema of a SQLite file, in one spelling."""
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name")
        return "".join(re.sub(r"\s+", " ", row[0]).replace("( ", "(").replace(" )", ")") + ";\n" for row in rows)


def migrated(file: Path) -> None:
    """A blank database brought to head by the migrations alone."""
    database = sqlite_database(file)
    with database.write() as connection:
        migrate._migrate(connection)
    database.close()


def stamp(folder: Path, revision: str) -> None:
    """Pretend that a store has another schema revision."""
    with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])


def test_migrated_blank_database_is_metadata_is_the_committed_schema(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    migrated(tmp_path / "migrated.db")
    store.close()
    made = dumped(folder / "store.db")
    assert dumped(tmp_path / "migrated.db") == made
    assert made == GOLDEN.read_text(encoding="utf-8")


def test_migrations_have_one_head_and_the_store_speaks_it() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [schema.HEAD]
    revisions = sorted(script.revision for script in scripts.walk_revisions())
    assert revisions == [f"{number:04d}" for number in range(1, len(revisions) + 1)]


def test_autogenerate_has_nothing_to_add(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    migrated(tmp_path / "migrated.db")
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    engine.dispose()


def test_opening_another_schema_names_the_way_out(store: Store, folder: Path) -> None:
    store.close()
    stamp(folder, "0000")
    with pytest.raises(Prerequisite) as older:
        Store.open(folder, create=True)
    assert older.value.exit_code == 6 and "ht db upgrade" in str(older.value.hint)
    assert Store.check(folder).status == "older"
    stamp(folder, "0999")
    with pytest.raises(Prerequisite) as newer:
        Store.open(folder)
    assert "upgrade harnesstrain" in str(newer.value.hint)
    with pytest.raises(Prerequisite, match="schema 0999"):
        Store.upgrade(folder)
    assert Store.check(folder).status == "newer"


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A later harnesstrain, with one more migration."""
    later = tmp_path / "migrations"
    shutil.copytree(shipped("migrations"), later, ignore=shutil.ignore_patterns("__pycache__"))
    file = later / "versions" / "0002_more.py"
    file.write_text(SECOND.format(more=""))
    monkeypatch.setattr(migrate, "HEAD", "0002")
    monkeypatch.setattr(migrate, "shipped", lambda name: later)
    return file


def test_upgrade_copies_the_file_then_migrates_and_keeps_every_row(store: Store, folder: Path, second: Path) -> None:
    run = recorded(store)
    store.close()
    with pytest.raises(Prerequisite, match="needs 0002"):
        Store.open(folder)
    done = Store.upgrade(folder)
    assert (done.before, done.after) == ("0001", "0002")
    assert done.backup is not None and done.backup.name == "store.db.0001.bak"
    with Store.open(folder) as upgraded:
        assert upgraded.run(run.id) == run
    again = Store.upgrade(folder)
    assert again.before == again.after and again.backup is None
    with closing(sqlite3.connect(done.backup)) as copy:
        assert copy.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        assert copy.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)


def test_upgrade_takes_along_what_is_still_in_the_log(store: Store, folder: Path, second: Path) -> None:
    run = recorded(store)  # the store stays open: its rows are in store.db-wal only
    done = Store.upgrade(folder)
    assert done.backup is not None
    with closing(sqlite3.connect(done.backup)) as copy:
        assert copy.execute("SELECT id FROM runs").fetchall() == [(run.id,)]


def test_a_failing_migration_changes_nothing(store: Store, folder: Path, second: Path) -> None:
    run = recorded(store)
    store.close()
    second.write_text(SECOND.format(more="op.execute('INSERT INTO nowhere VALUES (1)')"))
    before = dumped(folder / "store.db")
    with pytest.raises(StoreCorrupt, match="migration from 0001 failed") as caught:
        Store.upgrade(folder)
    assert "the store is unchanged" in str(caught.value.hint)
    assert dumped(folder / "store.db") == before and Store.check(folder).found == "0001"
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        assert connection.execute("SELECT id FROM runs").fetchall() == [(run.id,)]


def test_no_store_there(tmp_path: Path) -> None:
    for ask in (Store.open, Store.upgrade, Store.check):
        with pytest.raises(Prerequisite) as caught:
            ask(tmp_path / "nothing")
        assert "ht init" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_store_until_one_is_created(folder: Path) -> None:
    folder.mkdir()
    (folder / "store.db").touch()
    with pytest.raises(Prerequisite, match="no store at"):
        Store.open(folder)
    Store.open(folder, create=True).close()
    Store.open(folder).close()


def test_files_that_are_something_else_are_refused(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (folder / "store.db").write_bytes(b"not a database at all, " * 100)
    with pytest.raises(StoreCorrupt, match="not a database"):
        Store.open(folder, create=True)
    other = tmp_path / "other"
    other.mkdir()
    with closing(sqlite3.connect(other / "store.db")) as connection, connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreCorrupt, match="something else"):
        Store.open(other, create=True)


def test_alembic_is_not_needed_to_open_a_store(store: Store, folder: Path) -> None:
    import subprocess
    import sys

    store.close()
    code = (
        "import sys; import harnesstrain.store; assert 'sqlalchemy' not in sys.modules\n"
        "from harnesstrain.store import Store; Store.open(sys.argv[1]).summaries()\n"
        "print([m for m in ('alembic', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
