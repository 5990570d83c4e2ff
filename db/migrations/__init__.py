"""One file in versions/ for each change of the schema; `db.sql.engine.migrate` runs them."""
