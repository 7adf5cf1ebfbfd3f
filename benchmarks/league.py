"""Leagues beside naive self-play: rock-paper-scissors with five moves, poker, tic-tac-toe.

Of rock-paper-scissors: how far the league's mixture (of its frozen copies, the one that no mixture
beats) is from a fifth for each move, and how far the last policy of naive self-play. Of Kuhn and
Leduc poker: the exploitability, half of what best answers to both sides win together, of the mean
over the frozen copies of a player that meets its own past, and of the last policy of naive
self-play; that of Leduc as OpenSpiel computes it. Of tic-tac-toe: the games that the greedy policy
loses against all moves of an opponent, on both sides.

In poker the league is fictitious play: each copy learns from nothing, by soft Q-learning, to answer
all copies before it. A copy learns from its own games alone, explores much, as a best answer needs
the value of what it would not do, and fits the mean of what it wins (`mse`): Huber's loss would fit
nearly the median of winning and losing two chips.

python -m benchmarks.league [rps] [kuhn_poker] [leduc_poker] [tictactoe] [--steps N] [--seed N]
    [--runs FOLDER]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import EnvBatch
from dicore.run.launch import launch
from dicore_agents import TicTacToe, mixture, read_league
from dicore_agents.league.battle import find_contestant
from dicore_agents.league.sides import Sides

Floats = npt.NDArray[np.float64]

RPS5 = [
    [[0, 0] if a == b else [1, -1] if (a - b) % 5 in (1, 2) else [-1, 1] for b in range(5)]
    for a in range(5)
]
STEPS = {"rps": 40_000, "kuhn_poker": 160_000, "leduc_poker": 400_000, "tictactoe": 300_000}
FROZEN = {"rps": 1024, "kuhn_poker": 4096, "leduc_poker": 8192, "tictactoe": 8000}
"""Env steps after which a copy is frozen."""
ENVS: dict[str, dict[str, Any]] = {
    "rps": {"type": "matrix_game", "payoff": RPS5, "stop_value": 1e9, "collector_env_num": 8},
    "kuhn_poker": {"type": "kuhn_poker", "stop_value": 1e9, "collector_env_num": 16},
    "leduc_poker": {
        "type": "open_spiel:leduc_poker",
        "stop_value": 1e9,
        "collector_env_num": 16,
    },
    "tictactoe": {"type": "tictactoe", "stop_value": 1e9, "collector_env_num": 8},
}
POKER = {"kuhn_poker": 0.1, "leduc_poker": 0.2}
"""Temperatures of the soft Q-learning, in chips."""


def policy_of(game: str) -> dict[str, Any]:
    """Returns the section of the policy."""
    if game == "tictactoe":
        return {
            "type": "dqn", "discount_factor": 0.99,
            "model": {"encoder_hidden_size_list": [256, 256], "dueling": True},
            "learn": {"batch_size": 256, "update_per_collect": 8, "target_update_freq": 500,
                      "learning_rate": 1e-3, "learning_rate_end": 0.03, "criterion": "mse"},
            "collect": {"n_sample": 128},
            "other": {"eps": {"type": "linear", "start": 1.0, "end": 0.2, "decay": 50_000},
                      "replay_buffer": {"replay_buffer_size": 100_000}},
        }  # fmt: skip
    if game in POKER:
        return {
            "type": "sql", "discount_factor": 1.0,
            "model": {"encoder_hidden_size_list": [128]},
            "learn": {"alpha": POKER[game], "batch_size": 512, "update_per_collect": 16,
                      "learning_rate": 2e-3, "target_update_freq": 100, "criterion": "mse"},
            "collect": {"n_sample": 128},
            "other": {"eps": {"type": "linear", "start": 0.3, "end": 0.0, "decay": 10**8},
                      "replay_buffer": {"replay_buffer_size": FROZEN[game]}},
        }  # fmt: skip
    return {
        "type": "ppo", "discount_factor": 1.0,
        "model": {"encoder_hidden_size_list": [16]},
        "learn": {"batch_size": 64, "epoch_per_collect": 4, "learning_rate": 0.01,
                  "entropy_weight": 0.0},
        "collect": {"n_sample": 128},
    }  # fmt: skip


def players_of(game: str, kind: str) -> list[dict[str, Any]]:
    """Returns the players of a league, or of naive self-play, which is frozen as often."""
    every = FROZEN[game]
    often = {"freeze_steps": every, "least_steps": every}
    if kind == "naive":
        return [{"type": "naive_self_play", **often}]
    if game in POKER:
        past = {"self_play": 0.0, "verification": 0.0, "weighting": "uniform", "reset": 1.0}
        return [{"type": "main", **often, **past}]
    if game == "tictactoe":
        return [{"type": "main", **often, "self_play": 0.8}]
    roles = ("main", "main_exploiter", "league_exploiter")
    return [{"type": role, "freeze_steps": every, "least_steps": every // 2} for role in roles]


def trained(game: str, kind: str, steps: int, seed: int, runs: Path) -> Path:
    """Trains, unless the folder has a finished run; returns the folder."""
    folder = runs / f"{game}_{kind}_s{seed}"
    if not (folder / "ckpt" / "final").is_dir():
        env = {**ENVS[game], "env_wrapper": ["one_side"], "n_evaluator_episode": 20}
        pipeline = {
            "type": "league", "logger": [], "final_eval": False, "players": players_of(game, kind),
            "job_steps": 1024 if game == "tictactoe" else 512,
            **({} if game == "rps" else {"sample": True}),
            **({"opponents": 8} if game in POKER and kind == "league" else {}),
            **({"opponents": 4} if game == "tictactoe" else {}),
        }  # fmt: skip
        cfg = {"env": env, "policy": policy_of(game), "pipeline": pipeline}
        resume = {"exist": "resume"} if folder.exists() else {}
        launch(cfg, seed=seed, exp_name=str(folder), max_env_step=steps, **resume)
    return folder


def probabilities(folder: Path, seen: Any, sides: Sides) -> Floats:
    """Returns the probability of each action, [K, n], for what sides see in K positions."""
    player = find_contestant(folder)
    player.build(sides.spec, sample=True)
    count = len(seen["obs"] if isinstance(seen, Mapping) else seen)
    output = player._mode.forward(EnvBatch(np.arange(count), seen))  # noqa: SLF001 - the logits
    logit = np.asarray(EnvBatch.of(output).value["logit"], np.float64)
    policy: Any = player.compiled.policy
    if policy.type == "sql":
        logit = logit / policy.learn.alpha
    if isinstance(seen, Mapping):
        logit = np.where(seen["action_mask"], logit, -np.inf)
    shares = np.exp(logit - logit.max(1, keepdims=True))
    found: Floats = shares / shares.sum(1, keepdims=True)
    return found


def copies(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the frozen copies of a league, the oldest first."""
    for row in read_league(folder)["participants"]:
        if ":" in row["name"]:
            yield row["name"], folder / "league" / row["name"].replace(":", "_")


def rps_distance(folder: Path, *, last: bool) -> float:
    """Returns the largest distance of a move's probability from a fifth.

    Args:
        folder: The run.
        last: Of its last policy; else of the mixture of its frozen copies.
    """
    from dicore.interfaces.env import EnvSpec
    from dicore_agents import MatrixGame

    sides = Sides(EnvSpec.of(MatrixGame(RPS5)))
    seen = np.ones((1, 1), np.float32)
    if last:
        return float(abs(probabilities(folder / "ckpt" / "final", seen, sides)[0] - 0.2).max())
    moves = np.array([probabilities(path, seen, sides)[0] for _, path in copies(folder)])
    payoff = moves @ np.array(RPS5, np.float64)[..., 0] @ moves.T  # exact, of the frozen copies
    weights = mixture((payoff + 1) / 2)
    return float(abs(weights @ moves - 0.2).max())


# ---- Kuhn poker

_ENDS = {"pp": 1, "bb": 2, "pbb": 2}
_FOLDS = {"bp": 0, "pbp": 1}
_HISTORIES = ("", "p", "b", "pb")
DECISIONS = [(card, history) for history in _HISTORIES for card in range(3)]
"""All positions in which a player decides: its card and the moves so far."""


def kuhn_observations() -> dict[str, npt.NDArray[Any]]:
    """Returns what is seen in each of `DECISIONS`."""
    obs = np.zeros((len(DECISIONS), 10), np.float32)
    for row, (card, history) in enumerate(DECISIONS):
        obs[row, card] = obs[row, 9] = 1
        for number, move in enumerate(history):
            obs[row, 3 + 2 * number + "pb".index(move)] = 1
    return {"obs": obs, "action_mask": np.ones((len(DECISIONS), 2), np.int8)}


def exploitability(strategies: Floats) -> float:
    """Returns half of what best answers to both sides win, against a mean over policies.

    One policy is drawn for each game, as a league's mixture is played.

    Args:
        strategies: Probability of a bet in each of `DECISIONS`, [P, 12].
    """
    gains = [_best(side, strategies) for side in (0, 1)]
    return sum(gains) / 2


def _best(side: int, strategies: Floats) -> float:
    """Returns what the best answer of a side wins per game."""
    place = {decision: row for row, decision in enumerate(DECISIONS)}
    deals = [(a, b) for a in range(3) for b in range(3) if a != b]

    def value(card: int, history: str, reach: dict[int, Floats]) -> float:
        """Expected chips times reach; `reach`: of each policy, by the other one's card."""
        if (winner := _FOLDS.get(history)) is not None:
            return (1 if winner == side else -1) * sum(float(each.sum()) for each in reach.values())
        if chips := _ENDS.get(history):
            return sum(
                (chips if card > other else -chips) * float(each.sum())
                for other, each in reach.items()
            )
        if len(history) % 2 == side:
            return max(value(card, history + move, reach) for move in "pb")
        total = 0.0
        for move in "pb":
            after = {}
            for other, each in reach.items():
                bet = strategies[:, place[other, history]]
                after[other] = each * (bet if move == "b" else 1 - bet)
            total += value(card, history + move, after)
        return total

    start = np.full(len(strategies), 1 / len(strategies) / len(deals))
    return sum(
        value(card, "", {other: start for other in range(3) if other != card}) for card in range(3)
    )


def kuhn_exploitability(folder: Path, *, last: bool) -> float:
    """Returns the exploitability of the last policy, or of the mean over the frozen copies."""
    from dicore.interfaces.env import EnvSpec
    from dicore_agents import KuhnPoker

    sides, seen = Sides(EnvSpec.of(KuhnPoker())), kuhn_observations()
    places = [folder / "ckpt" / "final"] if last else [path for _, path in copies(folder)]
    strategies = np.array([probabilities(each, seen, sides)[:, 1] for each in places])
    return exploitability(strategies)


# ---- Leduc poker


def leduc_exploitability(folder: Path, *, last: bool) -> float:
    """Returns what `kuhn_exploitability` does, of Leduc poker, as OpenSpiel computes it."""
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms.exploitability import exploitability as measured

    from dicore.interfaces.env import EnvSpec
    from dicore.run.env_factory import make_env_manager

    game = pyspiel.load_game("leduc_poker")
    table = policy.TabularPolicy(game)
    tensors = [[*each.information_state_tensor(each.current_player()), 1] for each in table.states]
    mask = table.legal_actions_mask.astype(np.int8)
    seen = {"obs": np.array(tensors, np.float32), "action_mask": mask}  # the last: its turn
    envs = make_env_manager(find_contestant(folder).game, "evaluator", 0)
    sides = Sides(EnvSpec.of(envs))
    envs.close()
    places = [folder / "ckpt" / "final"] if last else [path for _, path in copies(folder)]
    strategies = np.array([probabilities(each, seen, sides) for each in places])
    table.action_probability_array[:] = _mean(game, table, strategies)
    return float(measured(game, table))


def _mean(game: Any, table: Any, strategies: Floats) -> Floats:
    """Returns the policy [K, n] that plays as one of P, drawn for each game, [P, K, n].

    At each position the policies count by how probably their own moves lead there.
    """
    total = np.zeros(strategies.shape[1:])

    def walk(state: Any, reach: list[Floats]) -> None:
        if state.is_terminal():
            return
        player = state.current_player()
        if state.is_chance_node():
            for action in state.legal_actions():
                walk(state.child(action), reach)
            return
        row = table.state_lookup[state.information_state_string(player)]
        total[row] = reach[player] @ strategies[:, row]
        for action in state.legal_actions():
            after = reach.copy()
            after[player] = reach[player] * strategies[:, row, action]
            walk(state.child(action), after)

    walk(game.new_initial_state(), [np.ones(len(strategies))] * game.num_players())
    shares: Floats = total / np.maximum(total.sum(1, keepdims=True), 1e-300)
    return shares


# ---- tic-tac-toe

_LINES = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6),
)  # fmt: skip


def lost_games(folder: Path) -> dict[str, int]:
    """Returns the positions in which the greedy policy has lost, by side, against all moves."""
    from dicore.interfaces.env import EnvSpec

    game = TicTacToe()
    player = find_contestant(folder)
    sides = Sides(EnvSpec.of(game))
    player.build(sides.spec, sample=False)

    @cache
    def chosen(board: tuple[int, ...]) -> int:
        own, other = (np.array(board) == each for each in (1, -1))
        obs = np.concatenate([own, other, [True]]).astype(np.float32)[None]
        mask = (np.array(board) == 0).astype(np.int8)[None]
        batch = EnvBatch(np.zeros(1, np.int64), {"obs": obs, "action_mask": mask})
        output = EnvBatch.of(player._mode.forward(batch))  # noqa: SLF001
        return int(output.value["action"][0])

    def won(board: tuple[int, ...], mark: int) -> bool:
        return any(all(board[cell] == mark for cell in line) for line in _LINES)

    def lost(board: tuple[int, ...], moves: bool) -> int:
        if 0 not in board:
            return 0
        cells = [chosen(board)] if moves else [cell for cell in range(9) if not board[cell]]
        total = 0
        for cell in cells:
            after = tuple(
                (1 if moves else -1) if at == cell else mark for at, mark in enumerate(board)
            )
            if won(after, -1):
                total += 1
            elif not won(after, 1):
                total += lost(after, not moves)
        return total

    empty = (0,) * 9
    return {"first": lost(empty, True), "second": lost(empty, False)}


def figures(game: str, steps: int, seed: int, runs: Path) -> Iterator[dict[str, Any]]:
    """Yields a line for the league, and one for naive self-play."""
    for kind in ("league", "naive"):
        start = time.process_time()
        folder = trained(game, kind, steps, seed, runs)
        facts: dict[str, Any] = {"game": game, "kind": kind, "seed": seed, "env_steps": steps}
        if game == "rps":
            facts["distance_from_solution"] = round(rps_distance(folder, last=kind == "naive"), 4)
        elif game in POKER:
            measured = kuhn_exploitability if game == "kuhn_poker" else leduc_exploitability
            for name, last in (("mean_of_copies", False), ("last", True)):
                found = measured(folder, last=last)
                facts[f"exploitability_{name}"] = round(found, 4)
        else:
            facts["lost_lines"] = lost_games(folder / "ckpt" / "final")
        yield {**facts, "cpu_s": round(time.process_time() - start, 1)}


def main() -> None:
    """Prints one JSON line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="*", default=[*STEPS])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path)
    given = parser.parse_args()
    runs = given.runs or Path(tempfile.mkdtemp(prefix="league"))
    for game in given.games:
        for line in figures(game, given.steps or STEPS[game], given.seed, runs):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
