"""Compose files that a task may have, and what none may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import Unsupported
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.sandbox.compose import STAYS_UP, Composition, read_composition
from harnesstrain.sandbox.project import Bounds, document

WEB = "services: {web: {image: x, %s}}"


def read(folder: Path, text: str, **values: str) -> Composition:
    file = folder / "docker-compose.yaml"
    file.write_text(text)
    return read_composition(file, values)


def made(found: Composition, network: str = "none") -> dict[str, Any]:
    bounds = Bounds(
        labels={"owner": "me"},
        limits=Limits(pids=100),
        memory_mb=512,
        largest=1 << 20,
        network=network,
        capabilities=("CHOWN",),
        seccomp=Path("/filter.json"),
    )
    return document(
        found, dict.fromkeys(found.services, "image:1"), {"mem_limit": "99m", "environment": {"A": "pin"}}, bounds
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WEB % "privileged: true", "service web uses privileged"),
        (WEB % "pid: host", "service web uses pid"),
        (WEB % "ipc: host", "service web uses ipc"),
        (WEB % "userns_mode: host", "service web uses userns_mode"),
        (WEB % "cap_add: [SYS_ADMIN]", "service web uses cap_add"),
        (WEB % "devices: [/dev/sda]", "service web uses devices"),
        (WEB % "security_opt: ['seccomp:unconfined']", "service web uses security_opt"),
        (WEB % "network_mode: host", "service web uses network_mode host"),
        (WEB % "network_mode: 'container:other'", "service web uses network_mode container:other"),
        (WEB % "volumes: ['/:/host']", "a volume of service web lies outside"),
        (WEB % "volumes: ['/var/run/docker.sock:/s']", "a volume of service web lies outside"),
        (WEB % "volumes: ['../../x:/x']", "a volume of service web lies outside"),
        (WEB % "volumes: ['~/.ssh:/x']", ""),
        (WEB % "volumes: ['./link:/x']", "a volume of service web lies outside"),
        (WEB % "volumes: [{type: npipe, source: x, target: /x}]", "a volume of type npipe"),
        (WEB % "volumes: [{type: volume, source: v, target: /x, volume: {subpath: ..}}]", "uses volume of a volume"),
        (WEB % "env_file: /etc/environment", "env_file of service web lies outside"),
        (WEB % "environment: [HOME]", "needs the variable HOME of this machine"),
        (WEB % "environment: {HOME: }", "needs the variable HOME of this machine"),
        (WEB % "environment: {A: $HOME}", "it needs the variable HOME"),
        (WEB % "command: '${SECRET:?}'", "it needs the variable SECRET"),
        (WEB % "extends: {file: /etc/x, service: y}", "service web uses extends"),
        (WEB % "secrets: [s]", "service web uses secrets"),
        (WEB % "gpus: all", "service web uses gpus"),
        (WEB % "depends_on: [db]", "depends on db, which is not there"),
        (WEB % "mem_limit: lots", "has a memory limit of lots"),
        (WEB % "cpus: many", "has cpus of many"),
        ("services: {web: {build: {context: /etc}}}", "the build context of service web lies outside"),
        ("services: {web: {build: {context: ., dockerfile: ../../../etc/passwd}}}", "the Dockerfile of service web"),
        ("services: {web: {build: {context: ., secrets: [s]}}}", "service web uses build.secrets"),
        ("services: {web: {command: x}}", "service web has neither an image nor a build"),
        ("services: {}\nsecrets: {s: {file: /etc/shadow}}", "it uses secrets"),
        ("services: {}\ninclude: [/etc/x]", "it uses include"),
        ("services: {}\nvolumes: {v: {driver_opts: {type: none, device: /, o: bind}}}", "volumes.v uses driver_opts"),
        ("services: {}\nvolumes: {v: {external: true}}", "volumes.v uses external"),
        ("services: {}\nnetworks: {n: {external: true}}", "networks.n uses external"),
        ("services: {}\nnetworks: {n: {driver: macvlan}}", "networks.n uses the driver macvlan"),
        ("services: [web]", "names no services"),
        ("services: {web: [x]}", "service web is no mapping"),
        ("a: [", "cannot be read"),
        ("", "names no services"),
    ],
)
def test_what_reaches_beyond_the_task_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    if not reason:  # a path below the folder that only looks like the home directory
        found = read(tmp_path, text)
        assert found.services["web"].settings["volumes"][0]["source"].startswith(str(tmp_path))
        return
    with pytest.raises(Unsupported) as refused:
        read(tmp_path, text)
    assert reason in refused.value.message


def test_every_reason_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="privileged.*devices|devices.*privileged"):
        read(tmp_path, WEB % "privileged: true, devices: [/dev/sda]")


def test_variables_come_from_the_task_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "canary")
    text = WEB % "command: '$A ${A} ${B:-b} ${B-} ${E:-e} ${E-e} ${A:+set} $$KEPT ${SECRET:-none}'"
    found = read(tmp_path, text, A="a", E="")
    assert found.services["web"].settings["command"] == "a a b  e  set $KEPT none"
    assert made(found)["services"]["web"]["command"] == "a a b  e  set $$KEPT none"


def test_main_is_always_there_and_stays_up(tmp_path: Path) -> None:
    found = read(tmp_path, "services:\n  db: {image: x}\n")
    services = made(found)["services"]
    assert services["main"]["command"] == STAYS_UP
    assert "command" not in services["db"]
    own = read(tmp_path, "services: {main: {command: serve}}")
    assert made(own)["services"]["main"]["command"] == "serve"


def test_nothing_is_published_or_restarted_and_everything_is_bounded(tmp_path: Path) -> None:
    text = WEB % "ports: ['80:80'], restart: always, container_name: n, logging: {driver: syslog}, labels: {a: b}"
    web = made(read(tmp_path, text))["services"]["web"]
    assert web.keys() & {"ports", "restart", "container_name"} == set()
    assert web["logging"]["options"] == {"max-size": "1m", "max-file": "1"}
    assert (web["mem_limit"], web["memswap_limit"], web["pids_limit"]) == ("512m", "512m", 100)
    assert web["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in web["security_opt"]
    assert web["labels"] == {"owner": "me"}


def test_limits_are_read_in_both_ways(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "services:\n  a: {image: x, mem_limit: 1g, cpus: 0.5, pids_limit: 10}\n"
        "  b: {image: x, deploy: {resources: {limits: {memory: 256M, cpus: '2'}}}}\n",
    )
    assert (found.services["a"].memory_mb, found.services["a"].cpus, found.services["a"].pids) == (1024, 0.5, 10)
    assert (found.services["b"].memory_mb, found.services["b"].cpus) == (256, 2.0)
    assert made(found)["services"]["main"]["mem_limit"] == "99m"


def test_networks_are_closed_unless_the_sandbox_has_one(tmp_path: Path) -> None:
    found = read(tmp_path, "services: {}\nnetworks: {back: {}}\nvolumes: {data: }\n")
    closed, opened = made(found), made(found, "host")
    assert set(closed["networks"]) == {"default", "back"}
    assert all(one["internal"] for one in closed["networks"].values())
    assert not any("internal" in one for one in opened["networks"].values())
    assert closed["volumes"] == {"data": {"labels": {"owner": "me"}}}


def test_main_waits_for_who_says_when_it_is_ready(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "services:\n  db: {image: x, healthcheck: {test: ok}}\n  plain: {image: x}\n"
        "  off: {image: x, healthcheck: {disable: true}}\n"
        "  after: {image: x, healthcheck: {test: ok}, depends_on: [main]}\n"
        "  main: {depends_on: [plain]}\n",
    )
    assert made(found)["services"]["main"]["depends_on"] == {
        "plain": {"condition": "service_started"},
        "db": {"condition": "service_healthy"},
    }


def test_variables_of_main_lie_over_the_pins(tmp_path: Path) -> None:
    found = read(tmp_path, "services: {main: {environment: [A=own, B=true]}}")
    assert made(found)["services"]["main"]["environment"] == {"A": "own", "B": "true"}


def test_services_of_profiles_are_not_started(tmp_path: Path) -> None:
    assert set(read(tmp_path, "services: {debug: {image: x, profiles: [debug]}}").services) == {"main"}


def test_what_is_made_is_json(tmp_path: Path) -> None:
    found = read(
        tmp_path, WEB % "environment: {PORT: 80, ON: true, WORD: yes}, tmpfs: [/run], volumes: [data:/x, /anonymous]"
    )
    again = json.loads(json.dumps(made(found)))
    assert again["services"]["web"]["environment"] == {"PORT": "80", "ON": "true", "WORD": "yes"}
    assert again["services"]["web"]["volumes"] == [
        {"type": "volume", "target": "/x", "source": "data"},
        {"type": "volume", "target": "/anonymous"},
    ]
