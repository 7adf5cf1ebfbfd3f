"""Updates of offline algorithms on equal weights and batches, compared with d3rlpy's.

Both begin with the same weights and see the same batches of the mixed data set; the figure is the
largest difference of their Q values after 50 updates, as a part of the mean Q value. Policies
differ in how they write their standard deviation, so algorithms are compared whose Q values do not
depend on it.

python -m benchmarks.offline_data        # makes the files
python -m benchmarks.offline_updates
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks.measure import at_most, missing
from benchmarks.offline_peers import IDS, d3rlpy_config
from dicore.config import bind, compile_config
from dicore.data import Batch
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything

UPDATES, ROWS = 50, 128
CASES = {
    "pendulum_iql": ["policy.learn.expectile=0.8"],
    "pendulum_td3_bc": ["policy.learn.alpha=40", "policy.learn.target_noise=0"],
    "cartpole_discrete_cql": [
        "policy.learn.target_theta=1.0", "policy.learn.max_grad_norm=null",
        "policy.discount_factor=0.99", "policy.learn.adam_eps=1e-8",
        "policy.model.encoder_hidden_size_list=[128,128]",
    ],
}  # fmt: skip
CONTINUOUS = [
    "policy.model.actor_hidden_size_list=[64,64]", "policy.model.critic_hidden_size_list=[64,64]",
    "policy.learn.target_theta=0.01",
]  # fmt: skip


def policy_of(env: str, name: str, options: list[str]) -> Any:
    """Returns our policy."""
    made = gymnasium.make(IDS[env])
    compiled = compile_config(
        {"env": {"type": env}, "policy": {"type": name}},
        overrides=["policy.learn.learning_rate=1e-3", *options],
    )
    seed_everything(0)
    return bind(compiled, EnvSpec.of(made)).policy.build(None)


def peer_of(env: str, name: str) -> Any:
    """Returns d3rlpy's algorithm; without smoothing, which draws noise, if it is TD3+BC."""
    import dataclasses

    config = d3rlpy_config(env, name)
    if name == "td3_bc":
        config = dataclasses.replace(config, target_smoothing_sigma=0.0)
    if name == "discrete_cql":
        config = dataclasses.replace(config, target_update_interval=1)
    algorithm = config.create(device="cpu:0")
    space = gymnasium.make(IDS[env]).action_space
    algorithm.create_impl((3,) if env == "pendulum" else (4,), int(getattr(space, "n", 1)))
    return algorithm.impl


def networks_of(peer: Any) -> Any:
    """Returns the networks of d3rlpy's algorithm."""
    return vars(peer)["_modules"]


def copied(pairs: list[tuple[Any, Any]], module: Any) -> None:
    """Copies weights [out, in] and biases to the linear layers of a module."""
    layers = [each for each in module.modules() if isinstance(each, torch.nn.Linear)]
    assert len(layers) == len(pairs)
    with torch.no_grad():
        for layer, (weight, bias) in zip(layers, pairs, strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)


def pairs_of(module: Any) -> list[tuple[Any, Any]]:
    """Returns weights and biases of an MLP."""
    flat = [each.detach() for name, each in module.named_parameters() if "layers" in name]
    return list(zip(flat[::2], flat[1::2], strict=True))


def equalise(model: Any, peer: Any) -> None:
    """Gives d3rlpy's networks our weights."""
    modules = networks_of(peer)
    for number, (q, target) in enumerate(zip(modules.q_funcs, modules.targ_q_funcs, strict=True)):
        found = pairs_of(model)
        if hasattr(model, "critic"):
            both = zip(model.critic.weights, model.critic.biases, strict=True)
            found = [(w.detach()[number].T, b.detach()[number].reshape(-1)) for w, b in both]
        copied(found, q)
        copied(found, target)
    if hasattr(model, "actor"):
        copied(pairs_of(model.actor), modules.policy)
    if hasattr(modules, "targ_policy"):
        modules.targ_policy.load_state_dict(modules.policy.state_dict())
    if hasattr(modules, "value_func"):
        copied(pairs_of(model.value), modules.value_func)


def batches(env: str) -> Iterator[dict[str, Any]]:
    """Yields batches of the mixed data set."""
    data = np.load(Path(f"runs/offline_data/{env}_mixed.npz"))
    rng = np.random.default_rng(0)
    for _ in range(UPDATES):
        rows = rng.integers(0, len(data["reward"]), ROWS)
        found = {key: data[key][rows] for key in ("obs", "action", "reward", "next_obs")}
        yield {**found, "done": data["terminated"][rows].astype(np.float32)}


def peer_batch(env: str, batch: dict[str, Any]) -> Any:
    """Returns a batch as d3rlpy's networks take it."""
    from d3rlpy.torch_utility import TorchMiniBatch

    column = {key: torch.tensor(each) for key, each in batch.items()}
    action = column["action"].reshape(ROWS, 1)
    action = action / 2 if env == "pendulum" else action
    return TorchMiniBatch(
        observations=column["obs"], actions=action, rewards=column["reward"].view(-1, 1),
        next_observations=column["next_obs"], next_actions=action,
        returns_to_go=column["reward"].view(-1, 1), terminals=column["done"].view(-1, 1),
        intervals=torch.ones(ROWS, 1), device="cpu",
    )  # fmt: skip


def difference(env: str, name: str, options: list[str]) -> float:
    """Returns the largest difference of the Q values, as a part of their mean."""
    policy = policy_of(env, name, options if env == "cartpole" else [*CONTINUOUS, *options])
    model, peer = policy.get_attribute("model"), peer_of(env, name)
    equalise(model, peer)
    for step, batch in enumerate(batches(env)):
        policy.learn_mode.forward(Batch(dict(batch)))
        networks_of(peer).q_funcs.train()
        peer.inner_update(peer_batch(env, batch), step + 1)
    last = peer_batch(env, batch)
    with torch.no_grad():
        if env == "pendulum":
            ours = model.q(last.observations, last.actions)
            theirs = [q(last.observations, last.actions) for q in networks_of(peer).q_funcs]
            found = torch.stack([each.q_value.squeeze(-1) for each in theirs])
        else:
            ours = model.q(last.observations)
            found = networks_of(peer).q_funcs[0](last.observations).q_value
    return float((ours - found).abs().max() / ours.abs().mean())


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    try:
        import d3rlpy  # noqa: F401
    except ImportError:
        missing("offline", "d3rlpy")
        return
    for case, options in CASES.items():
        env, _, name = case.partition("_")
        at_most(f"{case} difference to d3rlpy", [difference(env, name, options)], "x", 1e-4)


if __name__ == "__main__":
    main()
