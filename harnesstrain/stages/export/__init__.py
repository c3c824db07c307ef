"""Hand rollouts to other programs, and take in what they measured; from the store alone.

Read this to learn what a rollout looks like to Harbor, and what its jobs are as runs.  May import:
store, core; nothing that can run something.

atif.py         ATIF-v1.8 as strict records; read_trajectory, write_trajectory
trajectory.py   a rollout and its trace → Trajectory
messages.py     chat messages and tool calls as ATIF has them
taking.py       take: jobs of Harbor → runs in the store
harborjob.py    a job folder, read
endings.py      a trial → the outcome of a rollout
reading.py      trajectories → the trace of a rollout
"""

from harnesstrain.stages.export.atif import Trajectory, read_trajectory, write_trajectory
from harnesstrain.stages.export.trajectory import About, trajectory_of

__all__ = ["About", "Trajectory", "read_trajectory", "trajectory_of", "write_trajectory"]
