"""Hand rollouts to other programs, from the store alone.

Read this to learn what a rollout looks like to programs that read ATIF, the trajectory format of Harbor.  May import:
store's named results, core; nothing that can run something.

atif.py         ATIF-v1.8 as strict records; read_trajectory, write_trajectory
trajectory.py   a rollout and its trace → Trajectory
messages.py     chat messages and tool calls as ATIF has them
"""

from harnesstrain.stages.export.atif import Trajectory, read_trajectory, write_trajectory
from harnesstrain.stages.export.trajectory import About, trajectory_of

__all__ = ["About", "Trajectory", "read_trajectory", "trajectory_of", "write_trajectory"]
