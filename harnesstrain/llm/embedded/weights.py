"""A loaded model file: its vocabulary, and text to tokens and back."""

from __future__ import annotations

import ctypes as c
from array import array
from functools import lru_cache
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import ContextOverflow, Prerequisite
from harnesstrain.llm.embedded.chatml import TURN_END, TURN_START, Prompt

LONGEST_TOKEN = 512
"""No token stands for more bytes than this; longer text cannot fit a context and is refused before it is read."""

TURNS = 1024
"""Turns whose tokens are remembered."""


class Weights:
    """Model weights, memory-mapped and shared between processes ("plain": not repacked).

    Tokenising is thread-safe and may run beside a decode.
    """

    def __init__(self, library: Any, path: Path) -> None:
        """Map the file.  Raises Prerequisite when it is no model this engine can run."""
        params = library.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = False
        self._library = library
        self.handle = library.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            raise Prerequisite(f"{path.name} is not a model file that can be loaded", hint="`ht model verify`")
        self._vocab = library.llama_model_get_vocab(self.handle)
        self.vocab_size = int(library.llama_vocab_n_tokens(self._vocab))
        self.trained_context = int(library.llama_model_n_ctx_train(self.handle))
        self._start = self._control(TURN_START, path)
        self._end = self._control(TURN_END, path)
        self._newline = self._tokenise("\n")
        self._turn = lru_cache(maxsize=TURNS)(lambda text: array("i", self._tokenise(text)))
        """Tokens of a turn: a growing conversation costs what it adds."""

    def close(self) -> None:
        """Unmap the file.  Contexts made from it must be closed before."""
        if self.handle:
            self._library.llama_model_free(self.handle)
            self.handle = None

    def tokens(self, prompt: Prompt, room: int) -> list[int]:
        """Token ids of a prompt.  Control tokens come from the template only, never from message text.

        Raises ContextOverflow when the text cannot fit `room` tokens whatever it says.
        """
        size = sum(len(turn) for turn in prompt.turns)
        if size > room * LONGEST_TOKEN:
            raise overflow(size // LONGEST_TOKEN, room, at_least=True)
        ids: list[int] = []
        for turn in prompt.turns:
            ids += [self._start, *self._turn(turn), self._end, *self._newline]
        return [*ids, self._start, *self._tokenise(f"assistant\n{prompt.forced}")]

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; control tokens stand for nothing."""
        buffer = c.create_string_buffer(LONGEST_TOKEN)
        size = self._library.llama_token_to_piece(self._vocab, token, buffer, LONGEST_TOKEN, 0, False)
        return buffer.raw[: max(size, 0)]

    def ends(self, token: int) -> bool:
        """Whether a token ends the reply."""
        return bool(self._library.llama_vocab_is_eog(self._vocab, token))

    def _tokenise(self, text: str, control: bool = False) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        ids = (c.c_int32 * room)()
        count = self._library.llama_tokenize(self._vocab, data, len(data), ids, room, False, control)
        return list(ids[:count])

    def _control(self, text: str, path: Path) -> int:
        ids = self._tokenise(text, control=True)
        if len(ids) != 1:
            raise Prerequisite(
                f"{path.name} has no {text} token: the embedded engine runs ChatML models only",
                hint="`ht model list` names models that work",
            )
        return ids[0]


def overflow(prompt: int, room: int, at_least: bool = False) -> ContextOverflow:
    """The error for a prompt of `prompt` tokens in a context of `room`."""
    count = f"at least {prompt}" if at_least else str(prompt)
    return ContextOverflow(
        f"the prompt has {count} tokens, the context holds {room} with the reply",
        hint="shorten the conversation, or serve with a larger context length",
        prompt_tokens=prompt,
        context_length=room,
    )
