"""Whether middleware stand in an order that can work, judged from the fields they declare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dicore.errors import TaskError
from dicore.task.context import Context
from dicore.task.part import Part

__all__ = ["check_order"]


def check_order(parts: Sequence[Part], ctx: Context) -> None:
    """Checks that every field read is kept from step to step or written by something earlier.

    Raises:
        TaskError: a middleware reads a field before it is written, or names one that the context
            does not declare; the text holds every such case.
    """
    problems: list[str] = []
    _walk(parts, ctx, frozenset(), tuple(_leaves(parts)), problems)
    if problems:
        raise TaskError(
            "\n".join(problems),
            hint=_remedy(problems, ctx),
            context={"problems": tuple(problems)},
        )


def _walk(
    parts: Sequence[Part],
    ctx: Context,
    written: frozenset[str],
    everything: tuple[Part, ...],
    problems: list[str],
    *,
    together: bool = False,
) -> frozenset[str]:
    """Returns the fields written once `parts` have run."""
    after = written
    for part in parts:
        before = written if together else after
        if part.members:
            after |= _walk(part.members, ctx, before, everything, problems, together=part.together)
            continue
        problems.extend(_unknown(part, ctx))
        problems.extend(
            _too_early(part, name, everything)
            for name in part.fields.reads
            if ctx.has_attr(name) and not ctx.keeps(name) and name not in before
        )
        problems.extend(_none_yet(part, before, everything))
        after |= frozenset(part.fields.writes)
    return after


def _unknown(part: Part, ctx: Context) -> Iterable[str]:
    """A field that no context class declares; what is optional may be absent."""
    for name in dict.fromkeys((*part.fields.reads, *part.fields.writes)):
        if not ctx.has_attr(name):
            yield f"'{part.name}' needs a field '{name}', which {type(ctx).__name__} lacks"


def _remedy(problems: Sequence[str], ctx: Context) -> str:
    cls = type(ctx).__name__
    if all(text.endswith(f"which {cls} lacks") for text in problems):
        return f"start the task with a context that has them: a subclass of {cls}" + (
            ", as OnlineRLContext is" if type(ctx) is Context else ""
        )
    return "a middleware comes after the one that writes what it reads"


def _too_early(part: Part, name: str, everything: Sequence[Part]) -> str:
    writers = [each.name for each in everything if name in each.fields.writes and each is not part]
    says = f"'{part.name}' reads ctx.{name}, which nothing before it writes"
    return f"{says}; {', '.join(map(repr, writers))} does" if writers else says


def _none_yet(part: Part, before: frozenset[str], everything: Sequence[Part]) -> Iterable[str]:
    """Of several fields one is needed, and all that write one come later."""
    either = frozenset(part.fields.either)
    later = [each for each in everything if either & frozenset(each.fields.writes)]
    if later and not either & before:
        name = next(name for name in part.fields.either if name in later[0].fields.writes)
        yield _too_early(part, name, everything)


def _leaves(parts: Iterable[Part]) -> Iterable[Part]:
    for part in parts:
        if part.members:
            yield from _leaves(part.members)
        else:
            yield part
