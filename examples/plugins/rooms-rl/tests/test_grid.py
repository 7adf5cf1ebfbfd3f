"""The worlds: walls, doors, keys and time limits."""

import numpy as np
import pytest
from rooms_rl.grid import FourRooms, Grid, KeyDoor, TwoRooms

RIGHT, DOWN, LEFT, UP = (np.int64(each) for each in range(4))
WORLDS = (TwoRooms, FourRooms, KeyDoor)


def start_at(env: Grid, row: int, column: int) -> None:
    env.reset(seed=0)
    env.at = np.array([row, column])


@pytest.mark.parametrize("world", WORLDS)
def test_every_world_is_closed_and_has_one_exit(world: type[Grid]) -> None:
    cells = np.array([list(line) for line in world.plan])
    edge = np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
    assert set(edge) == {"#"}
    assert (cells == "E").sum() == 1


def test_the_exit_ends_the_episode_with_a_reward() -> None:
    env = TwoRooms(step_cost=0.25)
    start_at(env, 3, 6)
    _, reward, terminated, truncated, _ = env.step(RIGHT)
    assert (reward, terminated, truncated) == (0.75, True, False)


def test_walls_stop() -> None:
    env = TwoRooms()
    start_at(env, 1, 1)
    before = env.step(UP)[0]
    assert np.array_equal(before, env.step(LEFT)[0])


def test_a_door_needs_the_key() -> None:
    env = KeyDoor()
    start_at(env, 2, 3)
    closed = env.step(RIGHT)[0]
    for action in (LEFT, LEFT, RIGHT, RIGHT):
        back = env.step(action)[0]
    assert back[1] == closed[1]
    assert back[2] == 1.0
    assert env.step(RIGHT)[0][1] > closed[1]


def test_the_time_limit_is_no_terminal_state() -> None:
    env = TwoRooms(max_steps=1)
    env.reset(seed=0)
    assert env.step(UP)[2:4] == (False, True)


def test_slips_are_drawn_from_the_seed() -> None:
    def walked() -> list[list[float]]:
        env = FourRooms(slip=0.5)
        env.reset(seed=3)
        return [env.step(RIGHT)[0].tolist() for _ in range(20)]

    assert walked() == walked()
    still = FourRooms()
    still.reset(seed=3)
    assert walked() != [still.step(RIGHT)[0].tolist() for _ in range(20)]


def test_frames_show_the_position() -> None:
    env = TwoRooms(render_mode="rgb_array")
    start_at(env, 2, 2)
    before = env.render()
    assert before.shape == (80, 144, 3)
    env.step(RIGHT)
    assert not np.array_equal(env.render(), before)
