from dicore_compat.deque.buffer import Buffer as Buffer
from dicore_compat.deque.buffer import DequeBuffer as DequeBuffer
from dicore_compat.deque.config import DequeConfig as DequeConfig
from dicore_compat.deque.middleware import clone_object as clone_object
from dicore_compat.deque.middleware import group_sample as group_sample
from dicore_compat.deque.middleware import padding as padding
from dicore_compat.deque.middleware import sample_range_view as sample_range_view
from dicore_compat.deque.middleware import staleness_check as staleness_check
from dicore_compat.deque.middleware import use_time_check as use_time_check
from dicore_compat.deque.priority import (
    PriorityExperienceReplay as PriorityExperienceReplay,
)
from dicore_compat.deque.replay import DequeReplayBuffer as DequeReplayBuffer
from dicore_compat.deque.store import BufferedData as BufferedData
