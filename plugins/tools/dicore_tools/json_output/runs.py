"""What commands about runs, trainings and benchmarks print with `--json`.

Members may be added, and never change their type.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

__all__ = [
    "ArrayFacts",
    "Battle",
    "Certificate",
    "Diagnosis",
    "Evaluation",
    "Exported",
    "Finding",
    "ImportedWeights",
    "ListedRow",
    "MeasuredRow",
    "OfflineEvaluation",
    "ParallelStatus",
    "PlanOfTraining",
    "PlayedEpisodes",
    "Replayed",
    "RunReport",
    "SerialStatus",
    "StartedTraining",
    "StoppedTraining",
    "Study",
    "Trial",
    "Verdict",
]


class ListedRow(TypedDict):
    """A row of a benchmark (`--list`)."""

    row: Annotated[str, "its name"]
    env: Annotated[str, "environment"]
    policy: Annotated[str, "algorithm"]
    seeds: Annotated[list[int], "random seeds"]
    missing: Annotated[list[int], "seeds without a record"]


class MeasuredRow(TypedDict):
    """A measure of a row beside its interval (`--check`); exit code 1 if one is outside."""

    row: Annotated[str, "its name"]
    measure: Annotated[str, "name of the measure"]
    found: Annotated[float | None, "mean over the seeds; null: it could not be measured"]
    low: Annotated[float, "least mean that passes"]
    high: Annotated[float, "largest mean that passes"]
    outside: Annotated[bool, "whether it is outside, or not finite"]


class PlayedEpisodes(TypedDict):
    """Episodes played in one environment; exit code 1 if one failed."""

    place: Annotated[str, "run, checkpoint or environment"]
    returns: Annotated[list[float | None], "of each whole episode; null: not finite"]
    steps: Annotated[int, "env steps"]
    videos: Annotated[list[str], "files that were recorded"]
    error: Annotated[str, "why it failed; empty if it did not"]


class TriedValues(TypedDict):
    """A trial of a study."""

    trial: Annotated[int, "its number"]
    score: Annotated[float | None, "what is maximised; null: it failed"]
    complete: Annotated[bool, "false: ended early"]
    values: Annotated[dict[str, object], "options that it set"]
    env_step: Annotated[int, "env steps so far"]
    seconds: Annotated[float, "time that it took"]
    error: Annotated[str, "why it failed; empty if it did not"]


class Study(TypedDict):
    """Results of a search for option values."""

    folder: Annotated[str, "folder of the study"]
    trials: Annotated[list[TriedValues], "those that ended, the best first"]
    importances: Annotated[dict[str, float], "share in the differences; empty: too few trials"]
    stopped: Annotated[bool, "whether trials are missing; exit code 130"]


class Change(TypedDict):
    """An option to change."""

    option: Annotated[str, "its key path"]
    advice: Annotated[str, "what to set it to"]
    value: Annotated[object, "its value in the run; null: not set"]


class Finding(TypedDict):
    """A fault of learning."""

    what: Annotated[str, "the fault"]
    cause: Annotated[str, "what most likely causes it"]
    change: Annotated[list[Change], "options to change, the first one first"]
    numbers: Annotated[dict[str, float | None], "the evidence; null: not finite"]
    metrics: Annotated[list[str], "tags of the curves that show it"]
    rule: Annotated[str, "name of the rule"]


class Diagnosis(TypedDict):
    """What the rules find in a run."""

    format: Annotated[Literal[1], "version of this form"]
    run: Annotated[str, "folder of the run"]
    state: Annotated[str, "running, done, stopped, failed or killed"]
    env_step: Annotated[int, "env steps so far"]
    train_iter: Annotated[int, "gradient updates so far"]
    findings: Annotated[list[Finding], "likely causes first"]
    not_checked: Annotated[dict[str, str], "rules that do not apply, and why"]
    not_finite: Annotated[dict[str, int], "number of values that are not finite, by metric"]


class Evaluation(TypedDict):
    """Evaluation of a trained policy."""

    mean_return: Annotated[float | None, "mean undiscounted return; null: not finite"]
    returns: Annotated[list[float | None], "of each episode"]
    std: Annotated[float | None, "standard deviation of the returns"]
    episodes: Annotated[int, "number of whole episodes"]
    checkpoint: Annotated[str | None, "name of the checkpoint"]
    seed: Annotated[int | None, "seed of the episodes"]
    starts: Annotated[
        Literal["training", "fresh"], "whether episodes of the training were repeated"
    ]
    videos: Annotated[list[str], "files that were recorded"]
    sampled: Annotated[bool, "whether actions were drawn as in training"]
    measured: Annotated[
        dict[str, float | None], "win_rate or reward_per_step, if that is the run's measure"
    ]


class Battle(TypedDict):
    """Games of two policies (`--against`), from the side of the first one."""

    policies: Annotated[list[str], "the two policies"]
    games: Annotated[int, "number of games"]
    seed: Annotated[int, "random seed"]
    wins: Annotated[int, "games won"]
    draws: Annotated[int, "games drawn"]
    losses: Annotated[int, "games lost"]
    win_rate: Annotated[float, "share of games won"]
    win_rate_95: Annotated[list[float], "95 % interval"]
    mean_return: Annotated[float, "mean undiscounted return"]
    mean_return_95: Annotated[list[float] | None, "95 % interval; null: too few games"]
    wins_draws_losses_by_side: Annotated[dict[str, list[int]], "three counts for each side"]


class OfflineEstimate(TypedDict):
    """Estimated discounted return."""

    value: Annotated[float | None, "the estimate; null: not finite"]
    interval_95: Annotated[list[float] | None, "95 % interval; null: too few episodes"]


class OfflineEvaluation(TypedDict):
    """Estimates from recorded episodes (`--offline`)."""

    estimates: Annotated[dict[str, OfflineEstimate], "by estimator: fqe, wis, dr"]
    not_estimated: Annotated[dict[str, str], "estimators that do not apply, and why"]
    behaviour: Annotated[OfflineEstimate, "of the policy that acted: mean of the episodes"]
    episodes: Annotated[int, "number of episodes"]
    steps: Annotated[int, "number of steps"]
    effective_episodes: Annotated[
        float | None, "episodes that tell as much as the weighted ones; null: no weights"
    ]
    discount_factor: Annotated[float, "discount of the returns"]
    checkpoint: Annotated[str, "name of the checkpoint"]
    sampled: Annotated[bool, "whether actions are drawn, as in training"]
    change: Annotated[
        float | None, "of the fitted estimate by the last fifth of the updates, as a share of it"
    ]


class Exported(TypedDict):
    """A file that holds a policy."""

    file: Annotated[str, "file that was written"]
    readme: Annotated[str, "page with the lines of Python that run it"]
    steps: Annotated[int, "observations on which actions were compared"]
    largest_difference: Annotated[float, "of two actions"]


class ImportedWeights(TypedDict):
    """Weights that were taken into a checkpoint."""

    checkpoint: Annotated[str, "folder of the checkpoint"]
    rows: Annotated[list[Tensor], "tensors that were taken"]
    kept: Annotated[list[str], "tensors of the policy that keep their initial values"]
    unused: Annotated[list[str], "tensors of the file that were not taken"]


class Tensor(TypedDict):
    """A tensor of a policy and where its values come from."""

    policy: Annotated[str, "name in the policy"]
    shape: Annotated[list[int], "its shape"]
    file: Annotated[str, "name in the file"]


class Trial(TypedDict):
    """One measurement."""

    changes: Annotated[dict[str, object], "options that were changed; empty: the config"]
    problem: Annotated[str, "why nothing was measured"]
    env_steps_per_s: Annotated[float, "env steps a second"]
    updates_per_s: Annotated[float, "gradient updates a second"]
    speedup: Annotated[float | None, "against the config as it is"]
    seconds_to_budget: Annotated[float | None, "null without a budget"]
    shares: Annotated[dict[str, float], "share of the time, by part"]
    memory_bytes: Annotated[list[int], "of the training, then of each worker"]


class Budget(TypedDict):
    """Where a training ends."""

    max_env_step: Annotated[int | None, "in env steps; null: none"]
    max_train_iter: Annotated[int | None, "in gradient updates; null: none"]


class PlanOfTraining(TypedDict):
    """What a training will cost."""

    format: Annotated[Literal[1], "version of this form"]
    budget: Annotated[Budget, "where the training ends"]
    bottleneck: Annotated[str, "what the training waits for"]
    buffer_bytes: Annotated[float, "of the full replay buffer"]
    trials: Annotated[list[Trial], "the config first"]
    best: Annotated[dict[str, object] | None, "changes that help; null: none"]
    not_measured: Annotated[list[dict[str, object]], "changes that a signal left out"]


class ArrayFacts(TypedDict):
    """Figures of an array."""

    shape: Annotated[str, "such as 64x4"]
    min: Annotated[str, "as text with three digits; empty: no finite number"]
    mean: Annotated[str, "mean of the finite numbers"]
    max: Annotated[str, "largest finite number"]
    not_finite: Annotated[int, "number of values that are not finite"]


class Replayed(TypedDict):
    """One update of a run."""

    train_iter: Annotated[int, "updates made after it"]
    began: Annotated[str, "checkpoint from which the copy went on; empty: its beginning"]
    error: Annotated[str, "error that ended the run here"]
    differs: Annotated[str, "why this may not be what happened; empty: nothing says so"]
    compared: Annotated[int, "logged rows before it that are equal"]
    env_missing: Annotated[str, "why there are no arrays of environments; empty: there are"]
    not_stored: Annotated[list[str], "what is no array, with its type"]
    not_finite: Annotated[list[str], "arrays with values that are not finite"]
    arrays: Annotated[dict[str, ArrayFacts], "by part/name"]


class Evaluated(TypedDict):
    """An evaluation during a training."""

    env_step: Annotated[int, "env steps by then"]
    mean_return: Annotated[float, "mean return of its episodes"]


class RunReport(TypedDict):
    """A run and its results."""

    run: Annotated[str, "folder of the run"]
    state: Annotated[str, "running, killed, failed, reached the stop value, …"]
    env: Annotated[str, "environment"]
    policy: Annotated[str, "algorithm"]
    preset: Annotated[str, "preset with its version; empty: none, or not recorded"]
    seed: Annotated[int | None, "random seed"]
    env_step: Annotated[int, "env steps so far"]
    train_iter: Annotated[int, "gradient updates so far"]
    wall_s: Annotated[float, "seconds of training"]
    best_return: Annotated[float | None, "highest mean return; null: no evaluation"]
    evaluations: Annotated[list[Evaluated], "in their order"]
    versions: Annotated[dict[str, str], "of the packages that trained it"]


class StartedTraining(TypedDict):
    """A training that goes on in the background."""

    run: Annotated[str, "its folder, relative to the root of the server"]
    pid: Annotated[int, "process id"]


class StoppedTraining(TypedDict):
    """A training that was stopped."""

    run: Annotated[str, "its folder, relative to the root of the server"]
    exit_code: Annotated[int, "143: stopped and saved; 0: it had ended before"]


class SerialStatus(TypedDict):
    """State of a run in one process."""

    state: Annotated[str, "running, done, stopped, failed or killed"]
    env_step: Annotated[int, "env steps so far"]
    train_iter: Annotated[int, "gradient updates so far"]
    wall_s: Annotated[float, "seconds of training"]
    ended: Annotated[bool, "whether the training has ended"]
    killed: Annotated[bool, "whether it ended without a word"]
    error: Annotated[str, "first line of the error that ended it; empty: none did"]


class LearnerStatus(TypedDict):
    """What a learner does."""

    pid: Annotated[int, "process id; 0: none"]
    state: Annotated[str, "what it does"]
    train_iter: Annotated[int, "gradient updates so far"]
    env_step: Annotated[int, "env steps so far"]
    updates_per_s: Annotated[float, "gradient updates a second"]
    waited: Annotated[float, "share of the time"]
    samples: Annotated[int | None, "in the replay buffer; null: there is none"]


class CollectorStatus(TypedDict):
    """What a collector does."""

    index: Annotated[int, "its number"]
    pid: Annotated[int, "0: none"]
    state: Annotated[str, "what it does"]
    version: Annotated[int, "update of its parameters; -1: none yet"]
    lag: Annotated[int, "updates since"]
    env_step: Annotated[int, "env steps so far"]
    env_steps_per_s: Annotated[float, "env steps a second"]
    queue: Annotated[int, "calls that wait for it"]
    restarts: Annotated[int, "how often it was started again"]
    seen: Annotated[float | None, "seconds since it answered"]


class EvaluatorStatus(TypedDict):
    """What an evaluator does."""

    pid: Annotated[int, "process id; 0: none"]
    state: Annotated[str, "what it does"]
    missing: Annotated[int, "evaluations that were lost"]


class ParallelStatus(TypedDict):
    """State of a run in several processes."""

    format: Annotated[Literal[1], "version of this form"]
    ended: Annotated[bool, "whether the training has ended"]
    killed: Annotated[bool, "whether it ended without a word"]
    age: Annotated[float, "seconds since it was written"]
    started_by: NotRequired[Annotated[str, "commands: of -m dist"]]
    learner: Annotated[LearnerStatus, "the learner"]
    collectors: Annotated[list[CollectorStatus], "the collectors"]
    evaluator: NotRequired[Annotated[EvaluatorStatus, "the evaluator; missing without one"]]


class Verdict(TypedDict):
    """Comparison of a run with a second training; exit code 1 if they differ."""

    run: Annotated[str, "the run"]
    until: Annotated[int | None, "env step up to which they were compared; null: all"]
    rows: Annotated[int, "rows of metrics that are equal"]
    parameters: Annotated[bool | None, "whether parameters are equal; null: not compared"]
    problem: Annotated[str, "the first difference"]
    differs: Annotated[list[str], "what trained otherwise: a version, the code"]
    compared: Annotated[list[str], "files that were compared"]
    resumed: Annotated[list[int], "env steps at which the run was resumed"]
    equal: Annotated[bool, "whether no difference was found"]
    certificate: NotRequired[Annotated[str | None, "file; with --sign"]]


class Certificate(TypedDict):
    """Statement of a certificate that is right (`--certificate`)."""

    run: Annotated[str, "the run"]
    until: Annotated[int | None, "env step up to which it was compared; null: all"]
    rows: Annotated[int, "rows of metrics that were equal"]
    parameters: Annotated[bool | None, "whether parameters were equal; null: not compared"]
    differs: Annotated[list[str], "what trained otherwise"]
    resumed: Annotated[list[int], "env steps at which the run was resumed"]
    equal: NotRequired[Annotated[bool, "whether no difference was found"]]
    made_by: Annotated[dict[str, object], "versions, platform and code"]
    signed: Annotated[str, "when, in UTC"]
    files: Annotated[dict[str, str], "SHA-256 by path"]
    left_out: Annotated[list[str], "files that were not signed"]
    not_compared: Annotated[list[str], "what no training repeats"]
