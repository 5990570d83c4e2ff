"""One file in versions/ for each change of the schema; `db.engine.migrate` runs them."""
