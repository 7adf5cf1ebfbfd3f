"""The environment counts down."""

from dicore_hello.countdown import Countdown


def test_counting_down_gives_reward() -> None:
    env = Countdown(start=1, penalty=0.25)
    obs, _ = env.reset(seed=0)
    assert obs.tolist() == [1.0]
    assert env.step(0)[1:3] == (-0.25, False)
    assert env.step(1)[1:3] == (0.75, True)
