"""The database: engine, transactions, tables, schema, errors, and what its two dialects share."""
