"""What an endpoint says it is, and how its tokens are counted."""

from __future__ import annotations

from typing import Any

import pytest

from harnesstrain.core.errors import LlmFailure, TransportFailure, UsageError
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.transport import Patience
from tests.llm.badserver import MODELS, bad_server, raw, says

QUICK = Patience(connect=2.0, attempt=5.0, deadline=0.5, absent=0.2, pause=0.002, longest_pause=0.01)
SAY = [{"role": "user", "content": "four"}, {"role": "assistant", "content": None, "tool_calls": []}]


def endpoint_of(models: Any, routes: Any = None, **options: Any) -> Endpoint:
    with bad_server(models=models, routes=routes) as server:
        model = OpenAIModel(server.url, patience=QUICK, **options)
        try:
            return model.endpoint()
        finally:
            model.close()


def test_a_foreign_server_is_external_and_known_by_its_facts() -> None:
    vllm = {
        "id": "org/M",
        "object": "model",
        "created": 1700000000,
        "owned_by": "vllm",
        "root": "/home/me/models/M-snapshot",
        "parent": None,
        "max_model_len": 4096,
        "permission": [{"id": "random", "created": 1700000000}],
    }
    routes = {"/version": says({"version": "0.33.0"})}
    endpoint = endpoint_of({"data": [vllm]}, routes)
    assert endpoint == Endpoint(
        engine="external",
        model="org/M",
        context_length=4096,
        deterministic=False,
        max_running=8,
        identity={
            "id": "org/M",
            "owned_by": "vllm",
            "root": "M-snapshot",
            "max_model_len": 4096,
            "server_version": "0.33.0",
        },
    )
    later = {**vllm, "created": 1800000000, "permission": []}
    assert endpoint_of({"data": [later]}, routes).fingerprint == endpoint.fingerprint
    newer = endpoint_of({"data": [vllm]}, {"/version": says({"version": "0.34.0"})})
    assert newer.fingerprint != endpoint.fingerprint


def test_neither_host_nor_port_is_in_the_identity() -> None:
    fingerprints = {endpoint_of(MODELS).fingerprint for _ in range(2)}  # two servers, two ports
    assert len(fingerprints) == 1


@pytest.mark.parametrize("field", ["max_model_len", "context_length", "context_window", "max_context_length"])
def test_context_length_under_every_name(field: str) -> None:
    assert endpoint_of({"data": [{"id": "m", field: 777}]}).context_length == 777


def test_context_length_of_llama_server() -> None:
    props = {"default_generation_settings": {"n_ctx": 2048}, "build_info": "b1", "chat_template": "{{x}}"}
    model = {"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32768, "size": 5}}
    endpoint = endpoint_of({"data": [model]}, {"/props": says(props)})
    assert endpoint.context_length == 2048
    assert endpoint.identity["build_info"] == "b1"
    assert endpoint.identity["meta"] == {"n_ctx_train": 32768, "size": 5}


def test_a_server_that_says_how_many_it_runs_is_believed() -> None:
    llama = {"data": [{"id": "m", "owned_by": "llamacpp", "max_model_len": 9}]}
    slots = {"/props": says({"total_slots": 2})}
    sglang = {"data": [{"id": "m", "owned_by": "sglang", "max_model_len": 9}]}
    states = [{"effective_max_running_requests_per_dp": number} for number in (9, 12)]
    info = {"/server_info": says({"max_running_requests": 32, "internal_states": states})}
    assert endpoint_of(llama, slots).max_running == 2
    assert endpoint_of(llama, slots, max_running=1).max_running == 1
    assert endpoint_of(sglang, info, max_running=32).max_running == 9
    assert endpoint_of(sglang, {"/server_info": says({"internal_states": "?"})}).max_running == 8
    assert endpoint_of(llama, slots).fingerprint == endpoint_of(llama, {"/props": says({"total_slots": 4})}).fingerprint


def test_sglang_facts() -> None:
    info = {"version": "0.5.23", "enable_deterministic_inference": True, "random_seed": 5, "uptime": 12.5}
    model = {"id": "m", "owned_by": "sglang", "max_model_len": 9}
    identity = endpoint_of({"data": [model]}, {"/server_info": says(info)}).identity
    assert identity["version"] == "0.5.23" and identity["enable_deterministic_inference"] is True
    assert "uptime" not in identity


def test_context_length_from_the_argument() -> None:
    unknown = {"data": [{"id": "m"}]}
    assert endpoint_of(unknown, context_length=512).context_length == 512
    assert endpoint_of(MODELS, context_length=512).context_length == 512
    assert endpoint_of(MODELS, context_length=999_999).context_length == 4096
    with pytest.raises(UsageError, match="context length"):
        endpoint_of(unknown)


def test_several_models_need_a_name() -> None:
    several = {"data": [{"id": "a", "context_length": 5}, {"id": "b", "context_length": 6}]}
    assert endpoint_of(several, model="b").context_length == 6
    with pytest.raises(UsageError, match="2 models: a, b"):
        endpoint_of(several)
    with pytest.raises(UsageError, match="does not serve 'c'") as caught:
        endpoint_of(several, model="c")
    assert caught.value.hint == "it serves a, b"


def test_a_server_without_the_route_can_be_described() -> None:
    routes = {"/v1/models": says({}, 404)}
    assert endpoint_of(MODELS, routes, model="m", context_length=5).model == "m"
    with pytest.raises(LlmFailure):
        endpoint_of(MODELS, routes)
    for status in (400, 500, 200):
        chat = {"/v1/chat/completions": says({"odd": "no messages"}, status)}
        assert endpoint_of(MODELS, routes | chat, model="m", context_length=5).model == "m"


@pytest.mark.parametrize(("status", "said"), [(404, "no OpenAI-compat"), (405, "no OpenAI-compat"), (401, "API key")])
def test_a_server_without_any_route_is_no_endpoint(status: int, said: str) -> None:
    routes = {"/v1/models": says({}, 404), "/v1/chat/completions": says({}, status)}
    with pytest.raises(LlmFailure, match=said):
        endpoint_of(MODELS, routes, model="m", context_length=5)


@pytest.mark.parametrize("models", [None, [], {"data": "x"}, {"data": [{}]}, {"data": [1]}, {"data": []}])
def test_a_list_that_cannot_be_read(models: Any) -> None:
    with pytest.raises(LlmFailure):
        endpoint_of(models)


def test_a_server_that_answers_html() -> None:
    with pytest.raises(TransportFailure):
        endpoint_of(MODELS, {"/v1/models": raw(b"<html>")})


def count(routes: Any, times: int = 1) -> tuple[list[int], list[str]]:
    with bad_server(routes=routes) as server:
        model = OpenAIModel(server.url, patience=QUICK)
        try:
            counts = [model.count_tokens(SAY) for _ in range(times)]
        finally:
            model.close()
        return counts, [request.path for request in server.seen if request.path != "/v1/models"]


def test_tokens_by_messages() -> None:
    counts, paths = count({"/tokenize": says({"count": 42, "tokens": [1]})}, times=2)
    assert counts == [42, 42]
    assert paths == ["/tokenize", "/tokenize"]


def test_tokens_by_template() -> None:
    def tokenize(handler: Any) -> None:
        said = server_seen()[-1].body
        says({"tokens": [1, 2, 3] if "content" in said else []})(handler)

    with bad_server(routes={"/tokenize": tokenize, "/apply-template": says({"prompt": "<p>"})}) as server:
        server_seen = lambda: server.seen  # noqa: E731
        model = OpenAIModel(server.url, patience=QUICK)
        assert model.count_tokens(SAY) == 3
        assert model.count_tokens(SAY) == 3
        model.close()
    assert server.seen[-1].body["content"] == "<p>"


def test_tokens_by_text() -> None:
    def tokenize(handler: Any) -> None:
        said = server_seen()[-1].body
        (says({"count": 10}) if "prompt" in said else says({"error": "prompt required"}, 422))(handler)

    with bad_server(routes={"/tokenize": tokenize}) as server:
        server_seen = lambda: server.seen  # noqa: E731
        model = OpenAIModel(server.url, patience=QUICK)
        assert model.count_tokens(SAY) == 10 + 4 * len(SAY)
        model.close()


@pytest.mark.parametrize("routes", [{}, {"/tokenize": raw(b"<html>")}, {"/tokenize": says({"count": "many"})}])
def test_tokens_are_estimated_where_there_is_no_way(routes: Any) -> None:
    counts, _ = count(routes)
    assert counts == [4 + 1 + 4]


def test_a_way_that_worked_is_not_replaced_by_an_estimate() -> None:
    with bad_server(routes={"/tokenize": says({"count": 42})}) as server:
        model = OpenAIModel(server.url, patience=QUICK)
        assert model.count_tokens(SAY) == 42
        server.routes["/tokenize"] = says({"error": "no"}, 400)
        with pytest.raises(LlmFailure):
            model.count_tokens(SAY)
        model.close()
