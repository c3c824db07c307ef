"""How alembic runs here: on the connection that `harnesstrain.store.migrate` hands over, in its transaction.

To write a new migration: `alembic -c migrations/alembic.ini -x url=sqlite:///copy-of-store.db revision --autogenerate
--rev-id 0002 -m "what changes"`, then raise HEAD in harnesstrain/store/schema.py and renew tests/golden/schema.sql.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from harnesstrain.store.schema import metadata


def run(connection: sa.Connection) -> None:
    """Run the migrations asked for."""
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with sa.create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as opened:
        run(opened)
