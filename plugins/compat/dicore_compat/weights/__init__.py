"""Checkpoints of CleanRL, rsl_rl, skrl and tianshou: their networks by the names of ours."""
