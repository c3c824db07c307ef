"""Is the measurement deterministic?  `env`: a baseline's recorded chains, re-executed in fresh environments.

Read this to learn what a certificate claims.  May import: measure, rollout, the devices, core.

stage.py   run(context, spec): one certificate per task and seed of a run
"""

from harnesstrain.stages.certify.stage import CertifiedRun, CertifySpec, run

__all__ = ["CertifiedRun", "CertifySpec", "run"]
