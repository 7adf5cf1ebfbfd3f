"""Components and public names of first-party packages, to name the package that is missing."""

from __future__ import annotations

from typing import Final

_NAMES: Final[dict[str, dict[str, str]]] = {
    "dicore-plugins": {
        "api": (
            "episode_to_transitions episode_to_transitions_filter export_policy import_weights "
            "profiled suggested_table"
        ),
        "buffer": "advanced elastic episode file naive sequence",
        "collector": "episode sample",
        "dataset": "auto collected hdf5 minari npz",
        "env": "gym pettingzoo recorded",
        "env_manager": (
            "async_subprocess base env_supervisor envpool subprocess sync_subprocess thread vector"
        ),
        "env_transport": "pipe shared_memory",
        "env_wrapper": (
            "action_repeat clip_reward delay_reward discretize_action episodic_life "
            "eval_episode_return fire_reset flat_obs frame_stack gym_hybrid_dict_action "
            "gym_to_gymnasium lazy_frame_stack max_and_skip noop_reset obs_norm "
            "obs_plus_prev_action_reward obs_transpose ram rescale_action reward_in_obs "
            "reward_norm save_state scaled_float_frame static_obs_norm sticky_action time_limit "
            "versus warp_frame"
        ),
        "evaluator": "fqe interaction metric",
        "executor": "threads",
        "learner": "base",
        "learner_hook": "load_ckpt log_reduce log_show monitor save_ckpt",
        "logger": "alert comet console csv mlflow tensorboard usage wandb",
        "middleware": (
            "ckpt_saver data_pusher demo_loader device_prefetcher episode_collector "
            "eps_greedy_handler eps_greedy_masker her_data_enhancer her_learner inferencer "
            "interaction_evaluator lag_logger metric_evaluator multistep_trainer "
            "offline_data_fetcher offpolicy_data_fetcher offpolicy_learner pretrainer "
            "reward_model_trainer rolloutor settings_handler step_collector termination_checker "
            "trainer world_model_learner"
        ),
        "model": (
            "acer bco bcq bdq c51 crossq d4pg discrete_bcq discrete_sac dqn drqn dt ebm fqf iql "
            "iqn paddpg pdqn ppg qac qrdqn rainbow simba sqn tqc vac"
        ),
        "model_wrapper": (
            "argmax_sample base deterministic_sample eps_greedy_multinomial_sample "
            "eps_greedy_sample hidden_state multinomial_sample reparam_sample target"
        ),
        "optimizer": "adam adamw rmsprop sgd",
        "pipeline": (
            "serial serial_demos serial_dqfd serial_dyna serial_gail serial_ngu serial_offline "
            "serial_onpolicy serial_reward_model serial_sqil serial_trex serial_trex_onpolicy"
        ),
        "policy": (
            "a2c acer awac bc bco bcq bdq c51 cal_ql cql crossq d4pg ddpg ddqn discrete_bcq "
            "discrete_cql discrete_sac dqfd dqn droq dt dueling edac expert fqf ibc impala iql "
            "iqn mbpo mdqn npg paddpg pdqn pg ppg ppo ppo_offpolicy pqn qrdqn r2d2 r2d3 rainbow "
            "random rbc rebrac redq rlpd sac sac_n simba sqil sqil_sac sql sqn td3 td3_bc tqc "
            "trpo xql"
        ),
        "reward_model": "drex gail guided_cost her icm ngu red reward_norm rnd trex",
        "world_model": "ensemble",
    },
    "dicore-dist": {
        "comm_collector": "flask_fs ray",
        "comm_learner": "flask_fs ray",
        "command": "dist",
        "commander": "naive one_vs_one solo",
        "env_manager": "auto",
        "pipeline": "dist parallel",
        "transport": "http",
    },
    "dicore-tools": {
        "api": (
            "Agent begun_from build check_request code_state collect_demo_data "
            "collect_episodic_demo_data draw eval evaluate find_policy get load_demo_data "
            "meant_flag meant_option probe_imports record_env requeue requeued run_series "
            "train_seeds unit_of_word without_missing"
        ),
        "command": (
            "benchmark board catalogue check collect completion config diagnose doctor enjoy eval "
            "export hub import_weights index mcp new plan plot replay report schema search "
            "selftest session status tune verify watch"
        ),
        "config_format": "cpanel py toml yaml yml",
        "diagnosis_rule": (
            "actions_saturated buffer_small constant_observations constant_rewards dead_units "
            "ends_ignored entropy_collapsed entropy_dominates evaluation_noise exploration_ended "
            "exploration_goes_on frozen_target gradients_clipped gradients_vanish "
            "hardly_any_updates kl_spikes learning_rate_ended learning_rate_high "
            "learning_rate_low loss_explodes mostly_clipped no_target normalisation_drifts "
            "observation_scale replay_ratio_high replay_ratio_low reward_scale short_horizon "
            "updates_skipped values_too_high"
        ),
        "learner_hook": "from_run",
    },
    "dicore-compat": {
        "api": (
            "compare_actions compile_config_of_di_engine config_of_di_engine peer_weights "
            "read_config_of_di_engine system_of_di_engine"
        ),
        "buffer": "deque",
        "buffer_middleware": (
            "clone_object group_sample padding priority sample_range_view staleness_check "
            "use_time_check"
        ),
        "collector": "episode_1v1 sample_1v1",
        "command": "ditask migrate",
        "evaluator": "battle",
        "message_queue": "tcp",
        "middleware": (
            "barrier buffer_saver context_exchanger epoch_timer final_ctx_saver gae_estimator "
            "model_exchanger montecarlo_return_estimator nstep_reward_enhancer offline_data_saver "
            "offline_logger online_logger periodical_model_exchanger ppof_adv_estimator "
            "ppof_step_collector priority_calculator reward_estimator sqil_data_pusher"
        ),
        "model_wrapper": (
            "action_noise combination_argmax_sample combination_multinomial_sample "
            "hybrid_argmax_sample hybrid_deterministic_argmax_sample "
            "hybrid_eps_greedy_multinomial_sample hybrid_eps_greedy_sample "
            "hybrid_reparam_multinomial_sample teacher transformer_input transformer_memory "
            "transformer_segment"
        ),
        "sampler": (
            "check_nan check_shape check_stats compute_advantages flatten_first_two "
            "flatten_memory_to_train_key get_last_chunk get_memory_params get_sample_memory "
            "print_line truncate_datalists wrap_ff wrap_rn"
        ),
    },
    "dicore-agents": {
        "api": "battle league_sections",
        "command": "league",
        "env": (
            "gymnasium_agents kuhn_poker lbforaging matrix_game open_spiel pettingzoo_agents "
            "rware tictactoe two_step_game vmas"
        ),
        "env_wrapper": (
            "agent_flat_obs agent_frame_stack agent_obs_norm agents_as_one one_as_agents one_side"
        ),
        "league_player": "historical league_exploiter main main_exploiter naive_self_play",
        "model": "agent_q agents_vac collaq coma maddpg masac qmix qplex qtran vdn wqmix",
        "pipeline": "league",
        "policy": (
            "collaq coma groups happo independent_q ippo maddpg mappo masac matd3 qmix qplex "
            "qtran vdn wqmix"
        ),
        "preset": (
            "lbforaging_ippo lbforaging_mappo lbforaging_qmix_v1 lbforaging_qmix_v2 "
            "lbforaging_vdn_v1 lbforaging_vdn_v2"
        ),
    },
    "dicore-worlds": {
        "env": "board_game",
        "model": "board dreamer muzero tdmpc2",
        "planner": "gumbel puct",
        "policy": "alphazero dreamer efficient_zero gumbel_muzero muzero tdmpc2",
        "preset": (
            "cartpole_dreamer cartpole_gumbel_muzero cartpole_muzero connect_four_alphazero "
            "pendulum_dreamer pendulum_tdmpc2 tictactoe_alphazero"
        ),
    },
    "dicore-contrib": {
        "env": "maze",
        "model": "ars bro denoiser flash_sac gtrxl_dqn gtrxl_vac mrq procedure qgpo recurrent_qac",
        "policy": (
            "ars bro diffusion_policy fast_td3 flash_sac mrq procedure_cloning qgpo recurrent_sac "
            "recurrent_td3"
        ),
        "preset": (
            "cartpole_ars cartpole_mrq maze_procedure_cloning pendulum_bro "
            "pendulum_diffusion_policy pendulum_fast_td3 pendulum_flash_sac pendulum_mrq "
            "pendulum_pomdp_recurrent_sac pendulum_pomdp_recurrent_td3 pendulum_qgpo swimmer_ars"
        ),
        "reward_model": "bounded_reward_norm pdeil pwil",
    },
    "dicore-contrib-envs": {
        "env": (
            "acrobot ant atari bipedalwalker bit_flip blackjack breakout car_racing cartpole "
            "cartpole_pomdp chain cliffwalking dm_control frozenlake gymnasium halfcheetah hopper "
            "humanoid lunarlander lunarlander_continuous minatar mini_breakout minigrid "
            "mountain_car mountain_car_continuous moving nim pendulum pendulum_pomdp pong swimmer "
            "t_maze taxi two_step walker2d"
        ),
        "env_manager": "ale_vector",
        "preset": (
            "acrobot_dqn acrobot_ppo ant_ppo_v1 ant_ppo_v2 ant_sac bipedalwalker_ppo "
            "bipedalwalker_sac bit_flip_dqn bit_flip_dqn_her blackjack_dqn breakout_dqn "
            "car_racing_dqn car_racing_ppo cartpole_a2c cartpole_acer cartpole_bc cartpole_bco "
            "cartpole_bdq cartpole_c51 cartpole_ddqn cartpole_discrete_bcq cartpole_discrete_cql "
            "cartpole_discrete_sac cartpole_dqfd cartpole_dqn cartpole_dt cartpole_dueling "
            "cartpole_fqf cartpole_ibc cartpole_impala cartpole_iqn cartpole_mdqn "
            "cartpole_pomdp_dqn cartpole_pomdp_ppo cartpole_pomdp_r2d2 cartpole_ppg cartpole_ppo "
            "cartpole_ppo_offpolicy cartpole_pqn cartpole_qrdqn cartpole_r2d2 cartpole_rainbow "
            "cartpole_rbc cartpole_sqil cartpole_sql cartpole_sqn cartpole_trpo chain_dqn_rnd "
            "cliffwalking_dqn dm_control_sac frozenlake_dqn halfcheetah_ppo halfcheetah_sac "
            "hopper_ppo hopper_sac humanoid_sac lunarlander_continuous_ppo "
            "lunarlander_continuous_sac lunarlander_dqn lunarlander_ppo minatar_ppo_v1 "
            "minatar_ppo_v2 minatar_pqn mini_breakout_dqn minigrid_dqn minigrid_ppo_ngu "
            "mountain_car_continuous_sac mountain_car_dqn mountain_car_dqn_rnd moving_paddpg "
            "moving_pdqn moving_ppo pendulum_awac pendulum_bc pendulum_bcq pendulum_cal_ql "
            "pendulum_cql pendulum_crossq pendulum_d4pg pendulum_ddpg pendulum_droq pendulum_edac "
            "pendulum_ibc pendulum_iql pendulum_mbpo pendulum_ppo pendulum_rebrac pendulum_redq "
            "pendulum_sac pendulum_sac_n pendulum_simba pendulum_td3 pendulum_td3_bc pendulum_tqc "
            "pendulum_trpo pendulum_xql pong_dqn swimmer_ppo_v1 swimmer_ppo_v2 swimmer_sac "
            "t_maze_dqn t_maze_r2d2 t_maze_r2d3 taxi_dqn two_step_bdq two_step_dqn walker2d_ppo "
            "walker2d_sac"
        ),
    },
}


def known(kind: str) -> dict[str, str]:
    """Returns the distribution that provides each known name of a kind."""
    return {name: dist for dist, kinds in _NAMES.items() for name in kinds.get(kind, "").split()}
