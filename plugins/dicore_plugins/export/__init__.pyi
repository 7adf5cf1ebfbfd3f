from dicore_plugins.export.greedy_module import GreedyModule as GreedyModule
