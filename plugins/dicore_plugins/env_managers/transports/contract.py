"""The contract of env transports (`IEnvTransport`): what is stored is read on the other side."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from dicore.data import Tree
from dicore.errors import EnvSpaceError
from dicore.testing.compare import difference
from dicore.testing.env_manager.spaces import ACTIONS, OBSERVATIONS
from dicore.testing.suite import Suite, expect, expect_members, skip
from dicore_plugins.env_managers.actions import action_check_of, draw_actions
from dicore_plugins.env_managers.subprocess.channel import dumps, loads
from dicore_plugins.env_managers.transports.interface import EnvLayout, IEnvTransport

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["EnvTransportContract"]

_ENVS = 3
_SPACES: dict[str, Any] = {
    **OBSERVATIONS,
    "half": spaces.Box(-1.0, 1.0, (2, 3), np.float16),
    "double": spaces.Box(-1.0, 1.0, (3,), np.float64),
    "flags": spaces.Box(0, 1, (5,), np.bool_),
    "number": spaces.Box(-1.0, 1.0, (), np.float32),
    "empty": spaces.Box(-1.0, 1.0, (0,), np.float32),
}


class EnvTransportContract(Suite):
    """What it stores is what was given; what it cannot store it refuses."""

    def make(self, layout: EnvLayout) -> Any:
        """Returns a transport for these environments."""
        return self.registered.build(None, layout=layout)

    def test_has_the_methods(self) -> None:
        """It has the methods of `IEnvTransport`."""
        transport, _ = self._pair(spaces.Discrete(2), spaces.Discrete(2))
        expect_members(transport, IEnvTransport)
        transport.close()

    def test_carries_observations_of_every_space(self) -> None:
        """Results and first observations of every space are read as they were written."""
        for name, space in _SPACES.items():
            transport, copy = self._pair(space, spaces.Discrete(2))
            space.seed(0)
            for buffer in range(3):
                shown = [space.sample() for _ in range(_ENVS)]
                stored = [
                    copy.write(env_id, buffer, obs, env_id + 0.1, env_id)
                    for env_id, obs in enumerate(shown)
                ]
                if not all(stored):
                    expect(not any(stored), f"{name}: it stores only {stored}")
                    continue
                for rows, ids in ((slice(None), range(_ENVS)), ([2, 0], (2, 0))):
                    obs, rewards = transport.columns(rows, buffer)
                    expect(rewards.tolist() == [each + 0.1 for each in ids], f"{name}: {rewards}")
                    expect(list(transport.ended(rows, buffer)) == list(ids), f"{name}: ended")
                    for row, env_id in enumerate(ids):
                        self._same(name, obs, row, shown[env_id])
            first = space.sample()
            if copy.write_reset(1, first):
                found = transport.reset_obs(1)
                wrong = difference(_plain(found), _plain(first))
                expect(not wrong, f"{name}: a first observation differs: {wrong}")
            transport.close()

    def test_carries_actions_of_every_space(self) -> None:
        """Actions are read as they were put, and the copies are not overwritten by later ones."""
        rng = np.random.default_rng(0)
        discrete: dict[str, Space] = {
            "discrete": spaces.Discrete(4, start=2),
            "int8": spaces.Discrete(4, start=-2, dtype=np.int8),
        }
        for name, space in (ACTIONS | discrete).items():
            transport, copy = self._pair(spaces.Discrete(2), space)
            check = action_check_of(space)
            given = [list(check(draw_actions(space, _ENVS, rng), range(_ENVS))) for _ in range(2)]
            if transport.put_actions(slice(None), given[0]):
                found = copy.actions(slice(0, _ENVS))
                transport.put_actions([2, 0], [given[1][2], given[1][0]])
                wrong = difference(_plain(list(found)), _plain(given[0]))
                expect(not wrong, f"{name}: the actions differ: {wrong}")
                wrong = difference(_plain(list(copy.actions([0]))), _plain([given[1][0]]))
                expect(not wrong, f"{name}: the action of one environment differs: {wrong}")
            transport.close()

    def test_refuses_what_it_would_change(self) -> None:
        """Wrong shapes, overflow and rewards that are no numbers are not stored."""
        transport, copy = self._pair(spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2))
        good = np.zeros(3, np.float32)
        bad: list[tuple[object, object]] = [
            (good[:1], 0.0), (np.zeros(5, np.float32), 0.0), (None, 0.0), ("x", 0.0), (good, "1"),
            (good, None), (good, np.zeros(2)), (np.full(3, 1e300), 0.0),
        ]  # fmt: skip
        for obs, reward in bad:
            expect(not copy.write(0, 0, obs, reward, 0), f"it stored {obs!r} and {reward!r}")
        transport.close()

    def test_rewards_of_any_shape(self) -> None:
        """Rewards have the declared shape."""
        transport, copy = self._pair(spaces.Discrete(2), spaces.Discrete(2), (2,))
        expect(not copy.write(0, 0, np.int64(1), 1.0, 0), "a scalar is stored as a vector")
        if all(copy.write(i, 0, np.int64(1), np.array([i, 0.5]), 0) for i in range(_ENVS)):
            found = transport.columns(slice(None), 0)[1].tolist()
            expect(found == [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]], f"rewards are {found}")
        transport.close()

    def test_refuses_spaces_without_a_shape(self) -> None:
        """Text is carried by messages: it is not stored, or building raises EnvSpaceError."""
        layout = EnvLayout(_ENVS, spaces.Text(5), spaces.Discrete(2))
        try:
            transport = self.make(layout)
        except EnvSpaceError:
            return
        expect(not transport.write(0, 0, "abc", 0.0, 0), "it stored a text")
        transport.close()

    def test_leaves_no_descriptors(self) -> None:
        """`close` closes its files; memory in use remains readable."""
        gc.collect()  # files of others that are no longer in use
        before = _descriptors()
        transport, copy = self._pair(OBSERVATIONS["image"], spaces.Discrete(2))
        wrote = copy.write(0, 0, np.full((4, 84, 84), 7, np.uint8), 1.0, 0)
        obs = transport.columns(slice(None), 0)[0] if wrote else None
        transport.close()
        transport.close()
        del transport, copy
        if obs is not None:
            expect(int(obs[0].sum()) == 7 * 4 * 84 * 84, "an observation in use was overwritten")
        del obs
        expect(_descriptors() <= before, f"{_descriptors() - before} descriptors are left open")

    def _pair(
        self, observation: Space, action: Tree, reward: tuple[int, ...] = ()
    ) -> tuple[Any, Any]:
        """Returns the transport of the main process, and the copy of a worker."""
        transport = self.make(EnvLayout(_ENVS, observation, action, reward))
        copy = loads(dumps(transport))
        files = [os.dup(each) for each in transport.files()]
        copy.attach(files)
        for each in files:
            os.close(each)
        return transport, copy

    def _same(self, name: str, obs: Tree, row: int, wanted: Tree) -> None:
        from dicore.data import tree_row

        wrong = difference(_plain(tree_row(obs, row)), _plain(wanted))
        expect(not wrong, f"{name}: an observation differs: {wrong}")


def _plain(value: Tree) -> Any:
    """Returns nested data with an array at each leaf; float64 as float32."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _descriptors() -> int:
    from pathlib import Path

    folder = Path("/proc/self/fd")
    if not folder.exists():
        skip("the system does not list descriptors")
    return len(list(folder.iterdir()))
