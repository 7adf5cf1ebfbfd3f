"""Wrappers that remember something of each environment: hidden states, noise, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dicore.errors import UsageError
from dicore_plugins.model_wrappers import EnvStates
from dicore_plugins.models import DQN, DRQN, model_wrap

LIBRARIES = pytest.mark.parametrize("like", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


class Counter(nn.Module):
    """Its state counts the steps, and sums up the observations [K, 1]; the logits are that sum."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, obs: Any, hidden: Any = None) -> dict[str, Any]:
        if hidden is None:
            hidden = {"sum": obs * 0, "steps": obs[:, 0] * 0}
        hidden = {"sum": hidden["sum"] + obs, "steps": hidden["steps"] + 1}
        return {"logit": hidden["sum"], "hidden": hidden}


def column(like: Any, *values: float) -> Any:
    return like(np.array(values, np.float32)[:, None])


@LIBRARIES
@pytest.mark.parametrize("outer", [None, "argmax_sample", "eps_greedy_sample"])
def test_interleaved_environments_have_their_own_states(like: Any, outer: str | None) -> None:
    wrap = model_wrap(Counter(), "hidden_state", save_prev_state=True)
    if outer is not None:
        wrap = model_wrap(wrap, outer)
    first = wrap(column(like, 1, 10), env_id=[3, 0])
    assert first["prev_state"]["sum"].tolist() == [[0], [0]]
    wrap(column(like, 100), env_id=np.array([1]))
    later = wrap(column(like, 20, 2, 200), env_id=[0, 3, 1])
    assert later["logit"].tolist() == [[30], [3], [300]]
    assert later["prev_state"]["sum"].tolist() == [[10], [1], [100]]
    assert later["hidden"]["steps"].tolist() == [2, 2, 2]
    assert type(later["prev_state"]["sum"]) is type(later["logit"])
    wrap.reset([3, 7])
    assert wrap(column(like, 0, 0, 0), env_id=[0, 1, 3])["logit"].tolist() == [[30], [300], [0]]
    wrap.reset()
    assert wrap(column(like, 5), env_id=[0])["logit"].tolist() == [[5]]


def test_hidden_state_around_a_sampler_passes_it_the_ids() -> None:
    sampler = model_wrap(Counter(), "eps_greedy_sample")
    wrap = model_wrap(sampler, "hidden_state")
    output = wrap(column(np.asarray, 1, 2), env_id=[4, 2], eps={4: 0.0, 2: 0.0})
    assert output["action"].tolist() == [0, 0]


@LIBRARIES
def test_the_first_state_may_be_another_one(like: Any) -> None:
    def first() -> Any:
        return {"sum": like(np.array([7.0], np.float32)), "steps": like(np.array(1.0, np.float32))}

    wrap = model_wrap(Counter(), "hidden_state", init_fn=first)
    assert wrap(column(like, 1, 2), env_id=[0, 2])["logit"].tolist() == [[8], [9]]
    wrap.reset([2])
    assert wrap(column(like, 1, 2), env_id=[0, 2])["logit"].tolist() == [[9], [9]]


def test_states_have_no_graph_and_can_be_saved() -> None:
    model = DRQN(rnn_hidden_size=3, obs_shape=2, action_shape=2)
    wrap, twin = (model_wrap(model, "hidden_state", save_prev_state=True) for _ in range(2))
    with torch.inference_mode():  # states of inference can be written to later
        wrap(torch.randn(2, 2), env_id=[1, 0])
    output = wrap(torch.randn(2, 2), env_id=[1, 0])
    assert output["logit"].requires_grad
    assert not output["prev_state"].requires_grad
    twin.load_env_states(wrap.env_states())
    obs = torch.randn(2, 2)
    assert torch.equal(wrap(obs)["logit"], twin(obs)["logit"])
    assert not torch.equal(wrap(obs)["logit"], model(obs)["logit"])


@pytest.mark.parametrize(
    ("ids", "text"),
    [([0, 2], "from 0 to 2"), ([-1, 0], "from 0 to 2"), ([0], "2 observations need as many")],
)
def test_ids_that_cannot_be_are_refused(ids: list[int], text: str) -> None:
    wrap = model_wrap(Counter(), "hidden_state", state_num=2)
    with pytest.raises(UsageError, match=text):
        wrap(column(np.asarray, 1, 2), env_id=ids)


def test_a_model_without_a_state_is_refused() -> None:
    with pytest.raises(UsageError, match=r"returns logit, but no 'hidden'") as caught:
        model_wrap(DQN(2, 2), "hidden_state")(torch.zeros(1, 2))
    assert "drqn" in caught.value.hint


def test_values_of_environments_grow_with_the_ids() -> None:
    states = EnvStates()
    assert states.read(np.array([0])) is None
    assert states.state() is None
    states.write(np.array([1]), np.array([[5]]))
    assert states.read(np.array([1, 4, 0])).tolist() == [[5], [0], [0]]
    states.reset([])
    assert states.read(np.array([1])).tolist() == [[5]]


# ---- noise


class Given(nn.Module):
    def __init__(self, **output: Any) -> None:
        super().__init__()
        self.output = output

    def forward(self, obs: Any = None) -> dict[str, Any]:
        return dict(self.output)


@LIBRARIES
@pytest.mark.parametrize("kind", ["gauss", "ou"])
def test_noisy_actions_are_in_range(kind: str, like: Any) -> None:
    action = like(np.linspace(-1, 1, 2_000, dtype=np.float32).reshape(-1, 2))
    options = {"noise_kwargs": {"sigma": 3.0}, "action_range": {"min": -1.5, "max": 1.0}}
    wrap = model_wrap(Given(action=action), "action_noise", noise_type=kind, **options)
    noisy = wrap()["action"]
    assert type(noisy) is type(action)
    values = np.asarray(noisy)
    assert values.dtype == np.float32
    assert (values >= -1.5).all()
    assert (values <= 1.0).all()
    assert abs(values - np.asarray(action)).max() > 0.2
    near = model_wrap(
        Given(action=action), "action_noise", noise_type=kind, action_range=None,
        noise_range={"min": -0.1, "max": 0.05}, noise_kwargs=options["noise_kwargs"],
    )()["action"] - action  # fmt: skip
    assert -0.1 - 1e-6 <= float(near.min()) < 0 < float(near.max()) <= 0.05 + 1e-6


def test_gaussian_noise_has_its_size_and_is_independent() -> None:
    action = np.zeros((1, 4), np.float32)
    wrap = model_wrap(
        Given(mean=action), "action_noise", noise_kwargs={"mu": 0.5, "sigma": 0.2},
        action_range=None, rng=np.random.default_rng(0),
    )  # fmt: skip
    drawn = np.concatenate([wrap()["action"] for _ in range(2_000)])
    assert abs(drawn.mean() - 0.5) < 0.01
    assert abs(drawn.std() - 0.2) < 0.01
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.1
    assert (wrap(sigma=0.0)["action"] == 0.5).all()


def test_ou_noise_is_correlated_in_time_and_of_each_environment() -> None:
    def drawn(
        turns: list[list[int]], reset: dict[int, Any] | None = None
    ) -> dict[int, list[float]]:
        wrap = model_wrap(
            Given(action=np.zeros((1, 1), np.float32)), "action_noise", noise_type="ou",
            noise_kwargs={"x0": 0.3, "sigma": 0.1}, rng=np.random.default_rng(0),
        )  # fmt: skip
        found: dict[int, list[float]] = {0: [], 1: []}
        for turn, ids in enumerate(turns):
            if reset and turn in reset:
                wrap.reset(reset[turn])
            (env,) = ids
            found[env].append(float(wrap(env_id=ids)["action"][0, 0]))
        return found

    one = np.array(drawn([[0]] * 2_000)[0])
    assert np.corrcoef(one[:-1], one[1:])[0, 1] > 0.9
    turns = [[0]] * 300 + [[1]] + [[0]]
    far = drawn(turns)
    assert abs(far[1][0] - 0.3) < 0.05  # a new environment starts from x0
    assert abs(far[0][300] - far[0][299]) < 0.05
    again = drawn([*turns, [0], [1]], {len(turns): [0]})
    assert abs(again[0][-1] - 0.3) < 0.05
    assert again[0][:301] == far[0]


def test_noise_of_hybrid_actions_is_on_the_arguments() -> None:
    args, kind = np.zeros((3, 2), np.float32), np.array([0, 1, 2])
    both = Given(action={"action_type": kind, "action_args": args})
    output = model_wrap(both, "action_noise")()
    assert output["action"]["action_type"] is kind
    assert (output["action"]["action_args"] != 0).all()
    plain = model_wrap(Given(action_args=args, logit=args), "action_noise")()
    assert (plain["action_args"] != 0).all()
    assert (args == 0).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"noise_type": "pink"}, "pink"),
        ({"noise_kwargs": {"theta": 1.0}}, "theta"),
        ({"noise_kwargs": {"sigma": -1.0}}, "sigma"),
        ({"action_range": {"min": 1, "max": -1}}, "action_range must be"),
        ({"noise_range": {"min": 1}}, "noise_range must be"),
    ],
)
def test_options_of_noise_that_cannot_be_are_refused(options: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        model_wrap(Given(action=np.zeros((1, 1))), "action_noise", **options)


def test_a_model_without_continuous_actions_gets_no_noise() -> None:
    with pytest.raises(UsageError, match="needs the output action, action_args or mean"):
        model_wrap(Given(logit=np.zeros((1, 2))), "action_noise")()


# ---- transformers


class Sequences(nn.Module):
    """Logits [T, K, 1] are the observations; remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def forward(self, obs: Any, memory: Any = None) -> dict[str, Any]:
        self.seen.append(obs)
        if obs.ndim == 2:
            memory = obs * 0 if memory is None else memory
            return {"logit": obs + memory, "memory": obs + memory}
        return {"logit": obs}


@LIBRARIES
@pytest.mark.parametrize("fill", [None, -1.0])
def test_windows_hold_the_last_observations(like: Any, fill: float | None) -> None:
    init = None if fill is None else lambda: like(np.array([fill], np.float32))
    wrap = model_wrap(Sequences(), "transformer_input", seq_len=3, init_fn=init)
    empty = 0.0 if fill is None else fill
    output = wrap(column(like, 1, 10), env_id=[0, 2])
    assert output["input_seq"][:, :, 0].T.tolist() == [[1, empty, empty], [10, empty, empty]]
    assert output["logit"].tolist() == [[1], [10]]
    for step in (2, 3, 4):
        output = wrap(column(like, 10 * step, step), env_id=[2, 0])
    assert output["input_seq"][:, :, 0].T.tolist() == [[20, 30, 40], [2, 3, 4]]
    assert output["logit"].tolist() == [[40], [4]]
    wrap.reset([2])
    output = wrap(column(like, 5, 50), env_id=[0, 2])
    assert output["input_seq"][:, :, 0].T.tolist() == [[3, 4, 5], [50, empty, empty]]
    whole = wrap(column(like, 6, 60), env_id=[0, 2], only_last_logit=False)
    assert whole["logit"].shape == (3, 2, 1)


@LIBRARIES
def test_segments_are_joined(like: Any) -> None:
    model = Sequences()
    obs = like(np.arange(14, dtype=np.float32).reshape(7, 2, 1))
    output = model_wrap(model, "transformer_segment", seq_len=3)(obs)
    assert [len(each) for each in model.seen] == [3, 3, 1]
    assert output["logit"].tolist() == obs.tolist()


def test_memory_goes_with_the_environment() -> None:
    wrap = model_wrap(Sequences(), "transformer_memory", batch_size=3)
    wrap(column(np.asarray, 1, 10), env_id=[0, 2])
    assert wrap(column(np.asarray, 10, 1), env_id=[2, 0])["logit"].tolist() == [[20], [2]]
    wrap.reset([0])
    assert wrap(column(np.asarray, 10, 1), env_id=[2, 0])["logit"].tolist() == [[30], [1]]
    with pytest.raises(UsageError, match="from 0 to 3"):
        wrap(column(np.asarray, 1), env_id=[3])


@pytest.mark.parametrize("name", ["transformer_input", "transformer_segment"])
def test_a_window_of_no_steps_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="seq_len must be >= 1, got 0"):
        model_wrap(Sequences(), name, seq_len=0)
