"""Is the measurement deterministic?  `env`: a baseline's recorded chains, re-executed in fresh environments.
`model`: equal requests to the endpoint, alone and many at once.

Read this to learn what a certificate claims.  May import: measure, rollout, the devices, core.

stage.py   run(context, spec): one certificate per task and seed of a run
model.py   certify_model(context, spec): one certificate per endpoint and sampling
"""

from harnesstrain.stages.certify.model import CertifiedModel, GatePlan, ModelSpec
from harnesstrain.stages.certify.model import plan as plan_model
from harnesstrain.stages.certify.model import run as certify_model
from harnesstrain.stages.certify.stage import CertifiedRun, CertifySpec, run

__all__ = [
    "CertifiedModel",
    "CertifiedRun",
    "CertifySpec",
    "GatePlan",
    "ModelSpec",
    "certify_model",
    "plan_model",
    "run",
]
