"""What names and options of DI-engine are called in dicore: the tables of `dicore migrate`."""

from __future__ import annotations

__all__ = [
    "DROPPED",
    "ENTRIES",
    "ENVS",
    "ENV_IDS",
    "LOST",
    "MUJOCO",
    "POLICIES",
    "RENAMED",
]

POLICIES = {
    "sac_discrete": "discrete_sac",
    "cql_discrete": "discrete_cql",
    "ppg_offpolicy": "ppg",
}
"""Policy types with another name; a suffix `_command` (parallel training) is cut before."""

ENVS = {
    "bitflip": "bit_flip",
    "carracing": "car_racing",
    "frozen_lake": "frozenlake",
    "gym_hybrid": "moving",
    "mountain_car": "mountain_car",
    "petting_zoo": "pettingzoo",
}
"""Environment types with another name."""

MUJOCO = {
    "ant": "ant",
    "halfcheetah": "halfcheetah",
    "hopper": "hopper",
    "humanoid": "humanoid",
    "swimmer": "swimmer",
    "walk2d": "walker2d",
    "walker2d": "walker2d",
}
"""Environments of the types `mujoco` and `d4rl`, by the beginning of their id."""

ENV_IDS = {
    "LunarLander-v2": "LunarLander-v3",
    "CarRacing-v2": "CarRacing-v3",
    "Moving-v0": None,
}
"""Ids that Gymnasium replaced; None: the id of the type is right."""

ENTRIES = {
    "bco": {"bc": "bco"},
    "sqil": {"sql": "sqil", "sac": "sqil_sac", "sqn": "sqil"},
}
"""Policy types that an entry function makes another algorithm of: `serial_pipeline_sqil`."""

RENAMED = {
    "policy.random_collect_size": "policy.collect.random_collect_size",
    "policy.recompute_adv": "policy.learn.recompute_adv",
    "policy.learn.value_norm": "policy.model.value_norm",
    "policy.collect.discount_factor": "policy.discount_factor",
    "policy.learn.discount_factor": "policy.discount_factor",
    "policy.learn.target_update_theta": "policy.learn.target_theta",
    "policy.target_update_freq": "policy.learn.target_update_freq",
    "policy.learn.grad_norm": "policy.learn.max_grad_norm",
    "policy.learn.betas": "policy.learn.optimizer.betas",
    "policy.learn.lambda_": "policy.learn.vtrace_lambda",
    "policy.learn.rho_clip_ratio": "policy.learn.rho_clip",
    "policy.learn.c_clip_ratio": "policy.learn.c_clip",
    "policy.learn.epochs_aux": "policy.learn.auxiliary_epoch",
    "policy.learn.aux_freq": "policy.learn.collect_per_phase",
    "policy.learn.beta_weight": "policy.learn.clone_weight",
    "policy.learn.learning_rate_quantile": "policy.learn.learning_rate",
    "policy.learn.learning_rate_fraction": "policy.learn.fraction_learning_rate",
    "policy.learn.ent_coef": "policy.learn.fraction_entropy_weight",
    "policy.learn.double_q": "policy.learn.double",
    "policy.learn.nstep_return": None,
    "policy.kappa": "policy.learn.kappa",
    "policy.entropy_tau": "policy.learn.temperature",
    "policy.m_alpha": "policy.learn.munchausen_alpha",
    "policy.burnin_step": "policy.collect.burn_in",
    "policy.learn_unroll_len": "policy.collect.unroll_len",
    "policy.eval.evaluator.evalu_freq": "policy.eval.evaluator.eval_freq",
    "policy.learn.learner.load_path": "policy.learn.learner.hook.load_ckpt_before_run",
    "policy.model.lstm_type": "policy.model.rnn",
    "env.evaluator_episode_num": "env.n_evaluator_episode",
}
"""Options with another place; None: see `DROPPED`."""

DROPPED = {
    "env.import_names": "components are found by their names",
    "policy.import_names": "components are found by their names",
    "policy.model.import_names": "components are found by their names",
    "policy.learn.learner.import_names": "components are found by their names",
    "policy.collect.collector.import_names": "components are found by their names",
    "policy.other.replay_buffer.import_names": "components are found by their names",
    "env.manager.cfg_type": "not needed",
    "env.manager.shared_memory": "workers always share memory where the spaces have a shape",
    "env.manager.reset_inplace": "environments are reset in place",
    "env.replay_path": "for videos: dicore eval RUN --replay-path DIR",
    "env.save_replay_gif": "for videos: dicore eval RUN --replay-path DIR",
    "env.save_path": "for videos: dicore eval RUN --replay-path DIR",
    "env.act_scale": "policies with continuous actions scale them to their bounds",
    "env.use_act_scale": "policies with continuous actions scale them to their bounds",
    "env.continuous": "read from the environment",
    "env.env_name": "the type names the environment",
    "env.exp_name": "exp_name names the folder of a run",
    "env.collector_episode_num": "set by policy.collect.n_episode",
    "env.episode_num": "collecting ends by the budgets of the pipeline",
    "env.norm_reward.use_norm": "rewards are not normalised",
    "policy.action_space": "read from the environment",
    "policy.multi_agent": "read from the environment",
    "policy.command": "schedules need no section",
    "policy.load_path": "for evaluation: dicore eval RUN; to continue: dicore train --resume RUN",
    "policy.model.action_space": "read from the environment",
    "policy.model.continuous": "read from the environment",
    "policy.model.bound_type": "actions are bounded as the environment says",
    "policy.model.device": "set by policy.cuda",
    "policy.device": "set by policy.cuda",
    "policy.learn.reparameterization": "always so",
    "policy.learn.value_network": "SAC without a value network, as in its second paper",
    "policy.learn.resume_training": "to continue a run: dicore train --resume RUN",
    "policy.learn.nstep_return": "set by policy.nstep",
    "policy.learn.iqn": "set by policy.type",
    "policy.learn.noise_range": "without noise there is no range",
    "policy.learn.noise_sigma": "without noise there is no deviation",
    "policy.collect.env_num": "set by env.collector_env_num",
    "policy.collect.collector_env_num": "set by env.collector_env_num",
    "policy.eval.env_num": "set by env.evaluator_env_num",
    "policy.collect.traj_len_inf": "windows never cross the end of an episode",
    "policy.collect.noise": "set by policy.collect.noise as a deviation",
    "policy.collect.model_path": "for recorded data: dicore collect RUN",
    "policy.collect.save_path": "for recorded data: dicore collect RUN",
    "policy.collect.state_dict_path": "for recorded data: dicore collect RUN",
    "policy.collect.collect_count": "for recorded data: dicore collect RUN",
    "policy.collect.data_type": "the data set says what it holds",
    "policy.other.replay_buffer.multi_buffer": "one algorithm, one kind of sample",
    "policy.other.replay_buffer.sliced": "sequences are made when samples are",
    "policy.other.replay_buffer.max_reuse": "no limit",
    "policy.model.collector_env_num": "read from the environment",
}
"""Options that have no meaning in dicore, with the reason or the place of what is meant."""

LOST = {
    "env.norm_obs": "observations are not normalised; see the wrapper obs_norm",
    "env.termination_penalty": "no penalty at termination; see env wrappers",
    "env.rew_clip": "rewards are not clipped; see the wrapper clip_reward",
    "policy.learn.lr_scheduler": "set policy.learn.learning_rate_end and its length instead",
    "policy.learn.rho_pg_clip_ratio": "rho_clip is used for the policy gradient too",
    "policy.learn.ppo_param_init": "networks have the initial weights of dicore",
    "policy.learn.actor_epoch_per_collect": "set policy.learn.epoch_per_collect for both networks",
    "policy.learn.critic_epoch_per_collect": "set policy.learn.epoch_per_collect for both networks",
    "policy.other.eps.collect": "for recorded data: dicore collect RUN",
}
"""Options whose effect dicore has not, or has at a place that the user must choose."""
