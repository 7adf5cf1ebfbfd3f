"""Checkpoints of CleanRL, rsl_rl, SB3, skrl and tianshou: their networks by the names of ours."""
