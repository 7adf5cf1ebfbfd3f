"""Optional methods of environments, for those that do not have them: replays, random actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.errors import MissingDependencyError
from dicore.values import Info, Tree
from dicore_plugins.env_managers.adapt import Adapted, adapt

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["random_action", "recorded"]


def recorded(env: Adapted, env_id: int, folder: str) -> Adapted:
    """Returns an environment that records its episodes as videos, from its next reset on.

    Args:
        env: Renders images (`render_mode="rgb_array"`).
        env_id: Its number, for the file names.
        folder: Folder for the files; created if necessary.

    Raises:
        MissingDependencyError: `dicore-tools` is not installed.
        UsageError: its extra `video` is not installed.
    """
    try:
        from dicore import record_env
    except ImportError as error:
        raise MissingDependencyError(
            "recording videos needs the package dicore-tools",
            hint="pip install 'dicore-tools[video]'",
        ) from error
    new = adapt(record_env(env.env, folder, env_id))
    current = env.step  # the running episode is not recorded

    def reset(**kwargs: object) -> tuple[Tree, Info]:
        nonlocal current
        current = new.step
        return new.reset(**kwargs)

    def step(action: Tree) -> tuple[Tree, Tree, Tree, Tree, Info]:
        return current(action)

    return Adapted(new.env, new.core, step, reset, env.time_limit)


def random_action(env: Env) -> Tree:
    """Returns a legal action, drawn from the random stream of the run."""
    from dicore.run.random import stream

    env.action_space.seed(int(stream("env/random_action").integers(2**31)))
    return env.action_space.sample()
