"""Measures the embedded engine: `python -m tests.llm.embedded.measure [MODEL] [--turns 30] [--check 5,15,30]`.

Prints JSON: a growing conversation warm and cold (CPU seconds of prefill, logits digests compared at the checked
turns), prefill and decode speed, and the memory of a pool while every worker is busy.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.llm.embedded.chatml import render
from harnesstrain.llm.embedded.evaluator import Evaluator
from harnesstrain.llm.embedded.jobs import Job, Setup
from harnesstrain.llm.embedded.model import KV_BOUND, EmbeddedModel
from harnesstrain.llm.models.pull import model_file

SYSTEM = {
    "role": "system",
    "content": "You are a shell agent. Reply with exactly one command in a bash block, then wait for its output. " * 4,
}


def observation(turn: int) -> str:
    """What a command printed: about fifty tokens."""
    lines = [f"-rw-r--r-- 1 root {(turn * 7919 + n * 104729) % 99991} f{turn}_{n}.txt" for n in range(2)]
    return "Output:\n" + "\n".join(lines) + "\nWhat next?"


class Timed:
    """Completes prompts and keeps prefill seconds, decode seconds and logits digests of the last one."""

    def __init__(self, path: Path, context_length: int) -> None:
        self._evaluator = Evaluator(Setup(weights=path, context_length=context_length, kv_bound=KV_BOUND))
        self._key = 0
        self.rows: list[str] = []
        self.prefill = self.decode = 0.0

    def complete(self, messages: list[dict[str, Any]], tokens: int = 12, seed: int = 12345) -> Any:
        """One completion at temperature 1."""
        self._key += 1
        self.rows, marks, started = [], [], time.thread_time()

        def observe(row: Any) -> None:
            marks.append(time.thread_time() - started)
            self.rows.append(hashlib.sha256(row.tobytes()).hexdigest())

        sampling = Sampling(temperature=1.0, top_p=0.95, seed=seed, max_tokens=tokens)
        job = Job(key=self._key, prompt=render(LlmRequest(messages=tuple(messages))), sampling=sampling)
        done = self._evaluator.complete(job, observe=observe)
        self.prefill, self.decode = marks[0], (marks[-1] - marks[0]) / max(1, len(marks) - 1)
        return done

    def cold(self, messages: list[dict[str, Any]], **rest: Any) -> Any:
        """The same without any kept prefix."""
        self._evaluator.forget()
        return self.complete(messages, **rest)


def conversation(path: Path, turns: int, checked: set[int]) -> dict[str, Any]:
    """A growing conversation, warm throughout; cold again at the checked turns (0: at every turn)."""
    warm, cold = Timed(path, 8192), Timed(path, 8192)
    messages = [SYSTEM, {"role": "user", "content": "Find every text file and count its lines."}]
    sent = evaluated = 0
    warm_seconds = cold_seconds = compared_warm = 0.0
    equal = True
    for turn in range(1, turns + 1):
        done = warm.complete(messages)
        sent += done.prompt_tokens
        evaluated += done.prompt_tokens - done.reused
        warm_seconds += warm.prefill
        if turn in checked or not checked:
            again = cold.cold(messages)
            assert again.reused == 0
            equal = equal and (again.tokens, cold.rows) == (done.tokens, warm.rows)
            cold_seconds += cold.prefill
            compared_warm += warm.prefill
        messages += [{"role": "assistant", "content": done.text}, {"role": "user", "content": observation(turn)}]
    return {
        "turns": turns,
        "prompt_tokens_sent": sent,
        "prompt_tokens_evaluated": evaluated,
        "warm_prefill_cpu_s": round(warm_seconds, 2),
        "cold_prefill_cpu_s_of_checked": round(cold_seconds, 2),
        "warm_prefill_cpu_s_of_checked": round(compared_warm, 2),
        "speedup_of_checked": round(cold_seconds / compared_warm, 1),
        "logits_bit_equal": equal,
        "last_prompt_tokens": done.prompt_tokens,
    }


def speed(path: Path) -> dict[str, Any]:
    """Tokens per CPU second at a prompt of about 500 tokens."""
    timed = Timed(path, 2048)
    messages = [SYSTEM, {"role": "user", "content": "\n".join(observation(n) for n in range(7))}]
    done = timed.complete(messages, tokens=32)
    return {
        "prompt_tokens": done.prompt_tokens,
        "prefill_tokens_per_cpu_s": round(done.prompt_tokens / timed.prefill, 1),
        "decode_tokens_per_cpu_s": round(1 / timed.decode, 1),
    }


def memory(name: str, context_length: int, conversations: int) -> dict[str, Any]:
    """Memory of a pool with two workers after several conversations of about 700 tokens each."""
    model = EmbeddedModel(model_file(name), context_length=context_length, workers=2)
    try:

        def talk(number: int) -> None:
            text = f"Conversation {number}.\n" + "\n".join(observation(n + number) for n in range(10))
            messages = (SYSTEM, {"role": "user", "content": text})
            model.complete(LlmRequest(messages=messages, sampling=Sampling(max_tokens=4)))

        with ThreadPoolExecutor(conversations) as threads:
            list(threads.map(talk, range(conversations)))
        facts = [psutil.Process(pid).memory_full_info() for pid in model.worker_pids()]
        return {
            "workers": len(facts),
            "context_length": context_length,
            "conversations": conversations,
            "private_mb_each": [round(fact.uss / 1e6) for fact in facts],
            "peak_rss_mb_each": [_peak(pid) for pid in model.worker_pids()],
            "total_pss_mb": round(sum(fact.pss for fact in facts) / 1e6),
        }
    finally:
        model.close()


def _peak(pid: int) -> int:
    """Highest resident size so far, shared weights included."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="qwen2.5-coder-1.5b")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--check", default="1,10,20,30", help="turns compared with a cold evaluation; 'all'")
    parser.add_argument("--only", choices=["conversation", "speed", "memory"])
    chosen = parser.parse_args()
    path = model_file(chosen.model).path
    checked = set() if chosen.check == "all" else {int(turn) for turn in chosen.check.split(",")}
    parts = {
        "conversation": lambda: conversation(path, chosen.turns, checked),
        "speed": lambda: speed(path),
        "memory": lambda: [memory(chosen.model, length, 10) for length in (4096, 8192)],
    }
    result = {name: part() for name, part in parts.items() if chosen.only in (None, name)}
    print(json.dumps({"model": chosen.model, **result}, indent=1))


if __name__ == "__main__":
    main()
