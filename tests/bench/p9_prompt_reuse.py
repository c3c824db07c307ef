"""P9: the embedded engine on a growing conversation, against evaluating every prompt from its start."""

from __future__ import annotations

from harnesstrain.core.errors import HtError
from tests.bench.result import Result
from tests.bench.scale import Scale

ID = "P9"
TARGET = 5.0
UNIT = "times faster"


def measure(scale: Scale) -> Result:
    """Processor time of cold prefills over that of the warm ones at every fifth turn, every row of logits compared."""
    try:
        from harnesstrain.llm.embedded import library
        from harnesstrain.llm.models.pull import model_file
        from tests.llm.embedded.measure import conversation

        library.check_machine()
        path = model_file(scale.model).path
    except (HtError, ImportError) as error:
        return Result.unmeasured(ID, TARGET, UNIT, str(error))
    checked = {scale.turns, *range(5, scale.turns, 5)}
    found = conversation(path, scale.turns, checked)
    equal = bool(found["logits_bit_equal"])
    detail = (
        f"{scale.model}, {scale.turns} turns up to {found['last_prompt_tokens']} prompt tokens: cold "
        f"{found['cold_prefill_cpu_s_of_checked']} s, warm {found['warm_prefill_cpu_s_of_checked']} s CPU; "
        f"{found['prompt_tokens_evaluated']} of {found['prompt_tokens_sent']} tokens evaluated; logits "
        f"{'bit-equal' if equal else 'DIFFER'} at turns {', '.join(str(turn) for turn in sorted(checked))}"
    )
    cold, warm = found["cold_prefill_cpu_s_of_checked"], found["warm_prefill_cpu_s_of_checked"]
    speed = cold / warm if warm else float(found["speedup_of_checked"])
    return Result.at_least(ID, speed, TARGET, UNIT, detail, also=equal)
