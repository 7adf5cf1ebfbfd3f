"""The page beside an exported policy: inputs, outputs, and the lines of Python that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dicore.run.atomic import write_file
from dicore.values import State
from dicore_plugins.export.formats import Array, Format, Inputs, memory_name

if TYPE_CHECKING:
    from dicore.config.sections import Compiled

__all__ = ["write_page"]

_README: Final = """\
# {title}

Trained by dicore {version}: `{policy}` on `{env}`, checkpoint `{checkpoint}`. The file has the
network with its normalisation and the conversion to actions of the environment; dicore is not
needed to run it.

Input: {inputs}
Output: {outputs}
{notes}
```python
{usage}```
{hint}
Compared with the policy on {steps} observations: {agreement}.
"""
_MEMORY: Final = """
The policy has a memory: pass a state of zeros before the first step of an episode, and then the one
that the step before returned.
"""
_MEASURED: Final = """
The normalised observation is `(obs - mean) / np.sqrt(var + epsilon)`. In the first environment of
the evaluations it had measured:

```text
mean = {mean}
var = {var}
```
"""
_LISTED: Final = 1024
"""Most numbers of a mean that the page lists."""
_WRAPPERS: Final = """
Observations and actions are those of the environment with its wrappers: {wrappers}. In a program
with dicore, `Agent.from_run(RUN).make_env()` makes it; `print(env)` names its layers.
"""


def write_page(
    out: Path,
    form: Format,
    compiled: Compiled,
    checkpoint: str,
    inputs: Inputs,
    actions: Mapping[str, Array],
    difference: float,
    measured: Sequence[Any] = (),
) -> Path:
    """Writes the page beside a file, with its inputs and outputs and lines to run it.

    Args:
        out: The file.
        form: Its format.
        compiled: Config of the run.
        checkpoint: Name of the checkpoint.
        inputs: Inputs on which file and policy were compared.
        actions: Parts of the actions of the policy by name, [B, ...].
        difference: Largest difference to these.
        measured: States of the wrappers that remember something, the outermost first.

    Returns:
        The page.
    """
    from dicore import __version__

    obs, *state = inputs
    several = isinstance(obs, Mapping)
    parts = dict(obs) if isinstance(obs, Mapping) else {"obs": obs}
    zeros = {
        name: f"np.zeros({(1, *each.shape[1:])}, np.{each.dtype})" for name, each in parts.items()
    }
    listed = ", ".join(f'"{name}": {each}' for name, each in zeros.items())
    lines = [f"obs = {f'{{{listed}}}' if several else zeros['obs']}  # one row per observation"]
    lines += [f"state = np.zeros({(1, *each.shape[1:])}, np.float32)" for each in state]
    onnx, names = form.name == "ONNX", [*actions, *["state"] * len(state)]
    fields = {
        "{file}": out.name,
        "{inputs}": "\n".join(lines),
        "{outputs}": ", ".join(names) if len(names) > 1 else f"({names[0]},)" if onnx else names[0],
        "{shown}": ", ".join(each if onnx else f"{each}.numpy()" for each in actions),
        "{call}": form.calls[several][bool(state)],
        "{memory}": memory_name(obs),
    }
    usage = form.usage
    for field, text in fields.items():
        usage = usage.replace(field, text)
    adapting = [compiled.env] * getattr(compiled.env, "changes_data", False)
    wrappers = ", ".join(f"`{each.type}`" for each in [*adapting, *compiled.env.env_wrapper])
    exact = all(each.dtype.kind in "iub" for each in actions.values())
    count = len(next(iter(actions.values())))
    inside = {**parts, **{memory_name(obs): each for each in state}}
    outside = {**actions, **dict(zip(("next_state",), state, strict=False))}
    text = _README.format(
        title=out.name,
        version=__version__,
        policy=compiled.policy.type,
        env=compiled.env.get("env_id") or compiled.env.type,
        checkpoint=checkpoint,
        inputs=_described(inside),
        outputs=_described(outside),
        notes=_MEMORY * bool(state)
        + _WRAPPERS.format(wrappers=wrappers) * bool(wrappers)
        + "".join(map(_statistics, measured)),
        usage=usage,
        hint=form.hint,
        steps=count,
        agreement="all actions are equal" if exact else f"they differ by at most {difference:.1e}",
    )
    readme = out.with_suffix(out.suffix + ".md")
    write_file(readme, text.encode())
    return readme


def _statistics(state: State) -> str:
    """Writes what `obs_norm` measured; nothing for other states."""
    if not isinstance(state, Mapping) or set(state) != {"mean", "var", "count"}:
        return ""
    if np.size(state["mean"]) > _LISTED:
        return ""
    listed = {name: np.asarray(state[name], np.float32).tolist() for name in ("mean", "var")}
    return _MEASURED.format(**listed)


def _described(parts: Mapping[str, Array]) -> str:
    """Writes names, dtypes and shapes."""
    return "; ".join(
        f"`{name}`, {each.dtype} [{', '.join(map(str, ('batch', *each.shape[1:])))}]"
        for name, each in parts.items()
    )
