"""The contract of env transports: good ones pass, and each check catches a planted fault."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from gymnasium import spaces

from dicore.data import tree_map
from dicore_plugins.env_managers.transports.contract import EnvTransportContract
from dicore_plugins.env_managers.transports.pipe import Pipe
from dicore_plugins.env_managers.transports.shared_memory import SharedMemory

from .faults import Fault, catches


class OfPipe(Pipe):
    """Takes the environments, as all transports of the suite do."""

    def __init__(self, layout: Any) -> None:
        self.layout = layout


def of_other_row(self: Any, rows: Any, buffer: int) -> Any:
    obs, rewards = SharedMemory.columns(self, rows, buffer)
    return tree_map(lambda each: each[::-1], obs), rewards


def some_only(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    return env_id != 1 and SharedMemory.write(self, env_id, buffer, obs, reward, ended)


def rounded(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    return SharedMemory.write(self, env_id, buffer, obs, float(np.float32(reward)), ended)


def never_ends(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    return SharedMemory.write(self, env_id, buffer, obs, reward, 0)


def of_its_neighbour(self: Any, env_id: int) -> Any:
    return SharedMemory.reset_obs(self, env_id - 1)


def views_of_actions(self: Any, rows: Any) -> Any:
    return self._actions[rows]


def of_the_first(self: Any, rows: Any) -> Any:
    return SharedMemory.actions(self, slice(0, self.layout.env_num))


def puts_nothing(self: Any, rows: Any, actions: Any) -> bool:
    return self._actions is not None


def accepts_all(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    SharedMemory.write(self, env_id, buffer, obs, reward, ended)
    return True


def sums_rewards(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    return SharedMemory.write(self, env_id, buffer, obs, np.sum(reward) + 0 * reward, ended)


def broadcast(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    reward = np.broadcast_to(reward, self.layout.reward_shape) if np.ndim(reward) == 0 else reward
    reward = reward if self.layout.reward_shape else float(reward)
    return SharedMemory.write(self, env_id, buffer, obs, reward, ended)


def texts_as_numbers(self: Any, layout: Any) -> None:
    space = layout.observation_space
    if isinstance(space, spaces.Text):
        layout = layout._replace(observation_space=spaces.Discrete(9))
    SharedMemory.__init__(self, layout)


def length_of_texts(self: Any, env_id: int, buffer: int, obs: Any, reward: Any, ended: int) -> bool:
    obs = np.int64(len(obs)) if isinstance(obs, str) else obs
    return SharedMemory.write(self, env_id, buffer, obs, reward, ended)


def closes_nothing(self: Any) -> None:
    self._kept = os.dup(self._file) if self._file >= 0 else -1
    SharedMemory.close(self)


def blanks(self: Any) -> None:
    if self._file >= 0:
        tree_map(lambda each: each.fill(0), self._obs[0])
    SharedMemory.close(self)


FAULTS: list[Fault] = [
    ("has_the_methods", {"reset_obs": None}),
    ("carries_observations_of_every_space", {"columns": of_other_row}),
    ("carries_observations_of_every_space", {"write": some_only}),
    ("carries_observations_of_every_space", {"write": rounded}),
    ("carries_observations_of_every_space", {"write": never_ends}),
    ("carries_observations_of_every_space", {"reset_obs": of_its_neighbour}),
    ("carries_actions_of_every_space", {"actions": views_of_actions}),
    ("carries_actions_of_every_space", {"actions": of_the_first}),
    ("carries_actions_of_every_space", {"put_actions": puts_nothing}),
    ("refuses_what_it_would_change", {"write": accepts_all}),
    ("rewards_of_any_shape", {"write": sums_rewards}),
    ("rewards_of_any_shape", {"write": broadcast}),
    ("refuses_spaces_without_a_shape", {"__init__": texts_as_numbers, "write": length_of_texts}),
    ("leaves_no_descriptors", {"close": closes_nothing}),
    ("leaves_no_descriptors", {"close": blanks}),
]
PLANTED = {EnvTransportContract: [check for check, _ in FAULTS]}


class TestSharedMemory(EnvTransportContract):
    def make(self, layout: Any) -> Any:
        return SharedMemory(layout)


class TestPipe(EnvTransportContract):
    def make(self, layout: Any) -> Any:
        return OfPipe(layout)


test_each_check_catches_its_fault = catches(EnvTransportContract, SharedMemory, FAULTS)
