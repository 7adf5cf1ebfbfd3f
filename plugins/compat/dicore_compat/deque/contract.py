"""The contract of middleware of deque buffers (`IBufferMiddleware`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.errors import UsageError
from dicore.testing.compare import difference
from dicore.testing.suite import Suite, expect
from dicore_compat.deque.buffer import DequeBuffer

if TYPE_CHECKING:
    from dicore_compat.deque.interface import Chain

__all__ = ["BufferMiddlewareContract"]

_ITEMS = 24
_DRAWS: tuple[dict[str, Any], ...] = (
    {},
    {"train_iter_sample_data": 0},
    {"groupby": "episode", "size": 2},
)
"""Arguments of a draw; a middleware may need one of them."""


class BufferMiddlewareContract(Suite):
    """It passes actions on, leaves what it does not know alone, and keeps its state."""

    def make(self) -> tuple[DequeBuffer, Any]:
        """Returns a buffer that uses the middleware, and the middleware."""
        buffer = DequeBuffer(_ITEMS, rng=np.random.default_rng(0))
        middleware = self.registered.example().build(None, buffer_=buffer)
        buffer.use(middleware)
        return buffer, middleware

    def test_passes_actions_on(self) -> None:
        """Items are pushed, drawn, changed, deleted and cleared."""
        buffer, _ = self.make()
        _fill(buffer)
        expect(len(buffer) == _ITEMS, f"{len(buffer)} of {_ITEMS} pushed items are stored")
        expect(_draw(buffer), "a draw returns nothing")
        index = buffer.get(0).index
        expect(buffer.update(index, {"x": -1}, None), "update does not find a stored item")
        expect(buffer.get_by_index(index).data == {"x": -1}, "update changes nothing")
        expect(not buffer.update("unknown", 0, None), "update finds an item that is not there")
        buffer.delete(index)
        buffer.delete([buffer.get(0).index])
        expect(len(buffer) == _ITEMS - 2, "delete does not remove the item")
        buffer.clear()
        expect(len(buffer) == 0, "clear leaves items")

    def test_leaves_other_actions_alone(self) -> None:
        """An action of another name reaches the buffer once, with its arguments."""
        _, middleware = self.make()
        calls: list[object] = []

        def chain(*args: object, **kwargs: object) -> str:
            calls.append((args, kwargs))
            return "done"

        found = middleware("another_action", chain, 1, key=2)
        expect(found == "done", f"it returns {found!r}, the action returned 'done'")
        expect(calls == [((1,), {"key": 2})], f"the action was called with {calls}")

    def test_an_error_comes_through(self) -> None:
        """What the buffer raises is raised, and the buffer is as before."""
        buffer, _ = self.make()
        _fill(buffer)
        before = [(item.index, dict(item.meta)) for item in buffer]

        def fail(action: str, chain: Chain, *args: object, **kwargs: object) -> object:
            chain(*args, **kwargs)
            raise RuntimeError("stop")

        view = buffer.view().use(fail)
        for act in (lambda: view.push(0, _meta(0)), lambda: _draw(view), view.clear):
            try:
                act()
            except RuntimeError:
                continue
            expect(False, "an error of the action is lost")
        after = [(item.index, dict(item.meta)) for item in buffer]
        expect(not difference(after, before), "an action that failed has changed the buffer")

    def test_goes_on_after_a_restart(self) -> None:
        """With the saved state it draws the same items."""
        buffer, _ = self.make()
        _fill(buffer)
        _draw(buffer)
        twin, _ = self.make()
        twin.load_state_dict(buffer.state_dict())
        first, again = (_facts(_draw(each)) for each in (buffer, twin))
        wrong = difference(again, first)
        expect(not wrong, f"it draws otherwise with the state of another: {wrong}")


def _meta(number: int) -> dict[str, object]:
    return {"train_iter_data_collected": 0, "episode": number // 12, "priority": 1.0 + number}


def _fill(buffer: DequeBuffer) -> None:
    for number in range(_ITEMS):
        buffer.push({"x": number}, _meta(number))


def _draw(buffer: DequeBuffer) -> list[Any]:
    """Draws with the arguments that the middleware needs.

    Raises:
        UsageError: it accepts none.
    """
    problem: UsageError | None = None
    for options in _DRAWS:
        try:
            return buffer.sample(**{"size": 4, **options})
        except UsageError as error:
            problem = error
        except TypeError:  # the buffer takes no such argument
            continue
    raise problem if problem is not None else UsageError("no draw is accepted")


def _facts(drawn: list[Any]) -> list[object]:
    return [
        _facts(each) if isinstance(each, list) else [each.index, dict(each.meta)] for each in drawn
    ]
