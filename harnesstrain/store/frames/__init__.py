"""Records as flat tables: for data frames, SQL and spreadsheets.

Read this to learn which tables and columns there are, and where each value comes from.  May import: the rest of
store, core, pyarrow.  Column names and types are a contract: columns are added, never renamed.

shapes.py     Column, Shape: what a table is, without any row
measured.py   runs, rollouts, certificates, panels, caches
exchanges.py  steps
decided.py    candidates, verdicts, flips, excluded, epochs, promotions, memos
reading.py    the store, as the tables read it
catalogue.py  every table by name
arrow.py      rows → Arrow
writing.py    a table as a Parquet or CSV file
export.py     tables of a store as files
opened.py     open_store: the tables as data frames
"""
