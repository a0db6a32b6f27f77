"""Emulated accelerators under the probe, whose hosts poll while they wait, as CUDA's do."""

from __future__ import annotations

import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.emulate.host import Host
from tests.attach.examined import watch

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("in_folder")]


@pytest.mark.parametrize("host", ["spin", "gil"])
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("read-back", "host-sync"),
        ("launches", "overhead-bound"),
        ("fed", "device-bound"),
        ("starved", "serial-loader"),
    ],
)
def test_a_host_that_polls_gets_the_verdict_of_one_that_sleeps(
    kind: str, code: str, host: Host
) -> None:
    profile = watch("emulated.py", kind, host, budget_s=8.0)

    verdict = diagnose(profile).verdict
    assert verdict.code == code, (verdict.sentence, profile.inside, profile.device)
