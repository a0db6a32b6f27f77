"""Every view of a library answers all that the conductor asks."""

from __future__ import annotations

import inspect

import pytest

from stoker.probe.hooks.torch import TorchView
from stoker.probe.plain_view import PlainView
from stoker.probe.roles import Hooked

QUESTIONS = {
    name: function
    for name, function in vars(Hooked).items()
    if inspect.isfunction(function) and not name.startswith("_")
}


@pytest.mark.parametrize("view", [TorchView, PlainView])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_view_answers_with_the_parameters_that_are_asked_for(view: type, question: str) -> None:
    wanted = inspect.signature(QUESTIONS[question])
    given = inspect.signature(getattr(view, question))
    # A view that needs an argument for nothing may name it `_`.
    for asked, taken in zip(wanted.parameters, given.parameters, strict=True):
        assert taken in (asked, "_")
    assert given.return_annotation == wanted.return_annotation or question == "rehearsal"


def test_there_are_questions() -> None:
    assert "quiesce" in QUESTIONS
