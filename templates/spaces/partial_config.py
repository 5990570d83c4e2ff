"""A configuration with some knobs hidden, which detects which knobs a condition reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NoReturn


class HiddenKnobRead(Exception):
    """Raised when a condition reads hidden knobs; ``names`` are the knobs' names."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)


class PartialConfig(dict[str, Any]):
    """A configuration in which the knobs named ``hidden`` are not shown.

    Every way to read one of them, or all knobs at once, raises HiddenKnobRead.
    """

    def __init__(self, hidden: Collection[str]) -> None:
        super().__init__()
        self._hidden = hidden

    def __missing__(self, name: str) -> NoReturn:
        if name in self._hidden:
            raise HiddenKnobRead([name])
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        if name in self._hidden:
            raise HiddenKnobRead([str(name)])
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, default) if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self.copy())

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    def __ne__(self, other: object) -> bool:
        return self.copy() != other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def keys(self) -> Any:
        return self.copy().keys()

    def values(self) -> Any:
        return self.copy().values()

    def items(self) -> Any:
        return self.copy().items()

    def copy(self) -> dict[str, Any]:
        """Return all knobs. Raise HiddenKnobRead if any knob is hidden."""
        if self._hidden:
            raise HiddenKnobRead(self._hidden)
        return dict(super().items())
