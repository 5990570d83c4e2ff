"""A value that is stored as JSON is read back as the same value of the same types."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import JSON, literal, select

from db.sql.engine import open_engine
from db.sql.transaction import one_read

TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # without surrogates
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def test_json_value_is_read_back_unchanged(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/some.db")

    @given(VALUES)
    def check(value: Any) -> None:
        with one_read(engine) as connection:
            found = connection.execute(select(literal(value, JSON))).scalar_one()
        assert found == value
        assert repr(found) == repr(value)  # tells 1 from 1.0 and 0.0 from -0.0

    check()
