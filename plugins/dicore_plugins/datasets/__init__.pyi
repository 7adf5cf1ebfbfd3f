from dicore_plugins.datasets.collected import CollectedDataset as CollectedDataset
from dicore_plugins.datasets.config import AutoConfig as AutoConfig
from dicore_plugins.datasets.config import CollectedConfig as CollectedConfig
from dicore_plugins.datasets.config import DatasetConfig as DatasetConfig
from dicore_plugins.datasets.config import HDF5Config as HDF5Config
from dicore_plugins.datasets.config import MinariConfig as MinariConfig
from dicore_plugins.datasets.config import NpzConfig as NpzConfig
from dicore_plugins.datasets.dataset import TransitionDataset as TransitionDataset
from dicore_plugins.datasets.filling import fill_buffer as fill_buffer
from dicore_plugins.datasets.hdf5 import HDF5Dataset as HDF5Dataset
from dicore_plugins.datasets.hdf5 import write_hdf5 as write_hdf5
from dicore_plugins.datasets.minari_data import MinariDataset as MinariDataset
from dicore_plugins.datasets.npz import NpzDataset as NpzDataset
from dicore_plugins.datasets.npz import write_npz as write_npz
from dicore_plugins.datasets.transitions import episode_to_transitions as episode_to_transitions
from dicore_plugins.datasets.transitions import (
    episode_to_transitions_filter as episode_to_transitions_filter,
)
