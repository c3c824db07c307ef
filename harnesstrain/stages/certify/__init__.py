"""Is the measurement deterministic?  `env`: a baseline's recorded chains, re-executed in fresh environments.
`model`: equal requests to the endpoint, alone and many at once.  `harness`: a run's rollouts, played back.

Read this to learn what a certificate claims.  May import: measure, rollout, the devices, core.

stage.py   run(context, spec): one certificate per task and seed of a run
harness.py certify_harness(context, spec): one certificate per task and seed of a run
issue.py   several certificates made at once, each recorded as it comes
model.py   certify_model(context, spec): one certificate per endpoint and sampling
"""

from harnesstrain.stages.certify.harness import CertifiedHarness, HarnessSpec
from harnesstrain.stages.certify.harness import run as certify_harness
from harnesstrain.stages.certify.model import CertifiedModel, GatePlan, ModelSpec
from harnesstrain.stages.certify.model import plan as plan_model
from harnesstrain.stages.certify.model import run as certify_model
from harnesstrain.stages.certify.stage import CertifiedRun, CertifySpec, run

__all__ = [
    "CertifiedHarness",
    "CertifiedModel",
    "CertifiedRun",
    "CertifySpec",
    "GatePlan",
    "HarnessSpec",
    "ModelSpec",
    "certify_harness",
    "certify_model",
    "plan_model",
    "run",
]
