"""Wrapping: nothing is copied, everything is reachable, and every sampler does what it says."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dicore.errors import ActionError, PluginConflictError, UnknownComponentError, UsageError
from dicore_plugins.model_wrappers.base import BaseWrapper
from dicore_plugins.models import DQN, model_wrap, register_wrapper


class Given(nn.Module):
    """A model whose output is what it was made with; counts its resets."""

    def __init__(self, **output: Any) -> None:
        super().__init__()
        self.output = output
        self.weight = nn.Parameter(torch.ones(1))
        self.resets: list[Any] = []

    def forward(self, obs: Any = None) -> dict[str, Any]:
        return dict(self.output)

    def reset(self, data_id: Any = None) -> None:
        self.resets.append(data_id)


LIBRARIES = pytest.mark.parametrize("like", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


def test_wraps_share_the_parameters() -> None:
    model = DQN(4, 2)
    wraps = [model_wrap(model, name) for name in ("base", "multinomial_sample", "argmax_sample")]
    for wrap in wraps:
        pairs = zip(wrap.parameters(), model.parameters(), strict=True)
        assert all(a is b for a, b in pairs)


def test_everything_is_reachable_at_any_depth() -> None:
    model = Given(logit=torch.zeros(1, 2))
    wrap = model_wrap(model_wrap(model_wrap(model, "base"), "argmax_sample"), "eps_greedy_sample")

    assert [type(layer).__name__ for layer in wrap.layers] == [
        "EpsGreedySample", "ArgmaxSample", "BaseWrapper", "Given",
    ]  # fmt: skip
    assert wrap.output is model.output
    assert wrap.state_dict().keys() == model.state_dict().keys()
    assert torch.equal(wrap.state_dict()["weight"], model.weight)
    assert wrap.info("forward") == "EpsGreedySample > ArgmaxSample > BaseWrapper > Given"
    assert wrap.info("output") == "Given"
    with pytest.raises(AttributeError, match="no attribute 'nothing' at any depth"):
        wrap.info("nothing")
    with pytest.raises(AttributeError, match="nothing"):
        wrap.nothing  # noqa: B018 - looking is the point
    wrap.reset([3])
    assert model.resets == [[3]]
    assert repr(wrap) == "EpsGreedySample(ArgmaxSample(BaseWrapper(Given)))"


def test_base_is_innermost_and_changes_nothing() -> None:
    model = DQN(4, 2)
    wrap = model_wrap(model, wrapper_name="base")
    obs = torch.randn(3, 4)
    assert type(wrap) is BaseWrapper
    assert wrap.layers == (wrap, model)
    assert torch.equal(wrap.forward(obs)["logit"], model(obs)["logit"])
    assert torch.equal(wrap(obs)["logit"], model(obs)["logit"])
    wrap.reset()


def test_a_wrap_can_be_copied() -> None:
    wrap = model_wrap(DQN(4, 2), "argmax_sample")
    other = copy.deepcopy(wrap)
    assert next(other.parameters()) is not next(wrap.parameters())
    assert other(torch.ones(1, 4))["action"].shape == (1,)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (model_wrap, "needs a model, got the function 'model_wrap'"),
        (DQN, "the class 'DQN'"),
        (None, "got NoneType"),
    ],
    ids=["function", "class", "None"],
)
def test_what_is_not_a_model_is_refused(model: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        model_wrap(model, wrapper_name="base")


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(UnknownComponentError, match=r"argmax_sample.*eps_greedy_sample"):
        model_wrap(DQN(4, 2), "dropout")
    with pytest.raises(UnknownComponentError, match="did you mean 'argmax_sample'"):
        model_wrap(DQN(4, 2), "argmax_sampl")
    with pytest.raises(UsageError, match=r"'multinomial_sample': .*'beta'") as caught:
        model_wrap(DQN(4, 2), "multinomial_sample", beta=1)
    assert "alpha" in caught.value.hint


def test_an_error_of_the_constructor_is_its_own() -> None:
    class Picky(BaseWrapper):
        def __init__(self, model: Any, size: int = 0) -> None:
            raise TypeError("the size is odd")

    register_wrapper("picky", Picky)
    with pytest.raises(TypeError, match="the size is odd"):
        model_wrap(DQN(4, 2), "picky", size=1)


def test_a_wrapper_of_ones_own() -> None:
    class Doubled(BaseWrapper):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return {"logit": 2 * super().forward(*args, **kwargs)["logit"]}

    register_wrapper("doubled", Doubled)
    wrap = model_wrap(model_wrap(Given(logit=np.array([[1.0, 3.0]])), "doubled"), "argmax_sample")
    assert wrap()["logit"].tolist() == [[2.0, 6.0]]
    assert wrap()["action"].tolist() == [1]
    with pytest.raises(PluginConflictError, match="argmax_sample"):
        register_wrapper("argmax_sample", Doubled)
    with pytest.raises(UsageError, match="must be a class"):
        register_wrapper("thing", lambda model: model)  # type: ignore[arg-type]


@LIBRARIES
def test_argmax_takes_the_first_of_equal_logits(like: Any) -> None:
    logit = like(np.array([[1.0, 2.0, 2.0], [5.0, 1.0, 5.0]], np.float32))
    action = model_wrap(Given(logit=logit), "argmax_sample")()["action"]
    assert type(action) is type(logit)
    assert action.tolist() == [1, 0]


@LIBRARIES
def test_the_actions_of_several_heads_are_stacked(like: Any) -> None:
    logit = [like(np.eye(3, dtype=np.float32)[:2]), like(np.eye(2, dtype=np.float32))]
    for name, options in [("argmax_sample", {}), ("eps_greedy_sample", {"eps": 0.0})]:
        output = model_wrap(Given(logit=logit), name, **options)()
        assert output["action"].tolist() == [[0, 0], [1, 1]]
        assert output["logit"] is logit


SAMPLERS = [
    ("argmax_sample", {}),
    ("multinomial_sample", {"alpha": 0.5}),
    ("eps_greedy_sample", {"eps": 0.7}),
]


@pytest.mark.parametrize(("name", "options"), SAMPLERS, ids=[name for name, _ in SAMPLERS])
@pytest.mark.parametrize("where", ["output", "obs"])
@LIBRARIES
def test_a_masked_action_is_never_chosen(
    name: str, options: dict[str, Any], where: str, like: Any
) -> None:
    """10 000 samples; the largest logits are masked; the logits are not changed."""
    logit = like(np.tile(np.array([[9.0, 1.0, 8.0, 0.5]], np.float32), (10_000, 1)))
    mask = like(np.tile(np.array([[0, 1, 0, 1]], np.int8), (10_000, 1)))
    if like is np.asarray and "alpha" in options:
        options = {**options, "rng": torch.Generator().manual_seed(0)}
    given = {"logit": logit} | ({"action_mask": mask} if where == "output" else {})
    wrap = model_wrap(Given(**given), name, **options)

    output = wrap({"obs": None, "action_mask": mask} if where == "obs" else None)

    chosen = set(np.asarray(output["action"]).tolist())
    assert chosen == ({1} if name == "argmax_sample" else {1, 3})
    assert output["logit"] is logit
    assert logit[0].tolist() == [9.0, 1.0, 8.0, 0.5]


def test_each_head_has_its_mask() -> None:
    logit = [np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32)]
    mask = [np.array([[0, 1, 0], [0, 0, 1]]), np.array([[1, 0], [0, 1]])]
    wrap = model_wrap(Given(logit=logit, action_mask=mask), "eps_greedy_sample", eps=0.5)
    assert wrap()["action"].tolist() == [[1, 0], [2, 1]]
    with pytest.raises(UsageError, match="must be a list of 2 masks, one per head"):
        model_wrap(Given(logit=logit, action_mask=mask[0]), "argmax_sample")()
    alike = [logit[0]] * 2
    stacked = np.stack([mask[0], mask[0][::-1]], 1)
    for each in (stacked, torch.from_numpy(stacked)):
        wrap = model_wrap(Given(logit=alike, action_mask=each), "argmax_sample")
        assert wrap()["action"].tolist() == [[1, 2], [2, 1]]
    nothing = [mask[0], np.zeros((2, 2))]
    with pytest.raises(ActionError, match="row 0"):
        model_wrap(Given(logit=logit, action_mask=nothing), "argmax_sample")()


@LIBRARIES
@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_multinomial_samples_in_proportion(like: Any, alpha: float) -> None:
    """10 000 samples within 3 standard deviations of softmax(alpha * logit)."""
    row = np.array([0.0, 1.0, -1.0, 0.5], np.float32)
    logit = like(np.tile(row, (10_000, 1)))
    by_numpy = like is np.asarray
    rng = np.random.default_rng(0) if by_numpy else torch.Generator().manual_seed(0)
    wrap = model_wrap(Given(logit=logit), "multinomial_sample", alpha=alpha, rng=rng)

    counts = np.bincount(np.asarray(wrap()["action"]), minlength=4)

    p = np.exp(alpha * row) / np.exp(alpha * row).sum()
    assert (np.abs(counts - 10_000 * p) < 3 * np.sqrt(10_000 * p * (1 - p))).all()
    sharp = np.asarray(wrap(alpha=1e6)["action"])
    assert (sharp == 1).all()


@LIBRARIES
def test_multinomial_takes_given_probabilities(like: Any) -> None:
    prob = like(np.tile([0.1, 0.0, 0.9], (2_000, 1)))
    wrap = model_wrap(Given(prob=prob), "multinomial_sample", rng=np.random.default_rng(1))
    counts = np.bincount(np.asarray(wrap()["action"]), minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] - 1_800) < 3 * np.sqrt(2_000 * 0.09)


@LIBRARIES
def test_observations_and_heads_explore_independently(like: Any) -> None:
    """eps .5, 1000 rows, one call: about half the rows explore, heads independently."""
    head = like(np.tile(np.array([1.0, *[0.0] * 999], np.float32), (1_000, 1)))
    rng = np.random.default_rng(0)
    action = model_wrap(Given(logit=[head, head]), "eps_greedy_sample", rng=rng)(eps=0.5)["action"]

    explored = np.asarray(action) != 0
    assert ((explored.sum(0) > 450) & (explored.sum(0) < 550)).all()
    both = explored.all(1).sum()
    assert 200 < both < 300
    assert len(set(np.asarray(action)[explored].tolist())) > 300


@LIBRARIES
@pytest.mark.parametrize(
    ("eps", "ids", "exploring"),
    [
        ({7: 1.0, 3: 0.0, 5: 1.0, 1: 0.0}, [7, 3, 5, 1], [1, 0, 1, 0]),
        ({7: 1.0, 3: 0.0, 5: 1.0, 1: 0.0}, np.array([1, 3, 5, 7]), [0, 0, 1, 1]),
        ([0, 1, 0, 1], None, [0, 1, 0, 1]),
        ({0: 0.0, 1: 0.0, 2: 0.0, 3: 1.0}, None, [0, 0, 0, 1]),
    ],
    ids=["dict", "other order", "list", "no ids"],
)
def test_eps_per_environment(like: Any, eps: Any, ids: Any, exploring: list[int]) -> None:
    logit = like(np.tile(np.array([1.0, *[0.0] * 99], np.float32), (4, 1)))
    wrap = model_wrap(Given(logit=logit), "eps_greedy_sample", rng=np.random.default_rng(0))
    explored = sum(np.asarray(wrap(eps=eps, env_id=ids)["action"]) != 0 for _ in range(30))
    assert [count > 20 for count in explored] == [bool(each) for each in exploring]
    assert all(count > 20 or count == 0 for count in explored)


@pytest.mark.parametrize(
    ("eps", "text"),
    [
        (1.5, r"in \[0, 1\], got 1.5"),
        (float("nan"), r"in \[0, 1\]"),
        ([0.1], "2 numbers"),
        ([0.1, -1], "2 numbers"),
        ({0: 0.5}, r"no entry for environments \[1\]; it has \[0\]"),
    ],
)
def test_a_bad_eps_is_refused(eps: Any, text: str) -> None:
    wrap = model_wrap(Given(logit=np.zeros((2, 2), np.float32)), "eps_greedy_sample")
    with pytest.raises(UsageError, match=text):
        wrap(eps=eps)


@LIBRARIES
def test_the_generator_decides(like: Any) -> None:
    logit = like(np.zeros((50, 5), np.float32))
    for name in ("multinomial_sample", "eps_greedy_sample"):
        runs = []
        for seed in (1, 1, 2):
            wrap = model_wrap(Given(logit=logit), name, rng=np.random.default_rng(seed))
            kwargs = {"eps": 1.0} if name == "eps_greedy_sample" else {}
            runs.append([np.asarray(wrap(**kwargs)["action"]).tolist() for _ in range(2)])
        assert runs[0] == runs[1] != runs[2]
        assert runs[0][0] != runs[0][1]
