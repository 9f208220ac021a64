"""Requests from the description of the interface, sensible or not. Minutes: pytest -m long tests/test_web_schema.py."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shells import pied_

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient

from pied.web.openapi import described
from test_web import FORM, client

EXAMPLES = int(os.environ.get("PIED_EXAMPLES", "1500"))
"""Requests that are made."""
NAMES = ("product", "impurity", "temperature", "time", "price", "limit", "purity", "across", "up", "name", "lo", "hi")
"""Of the laboratory: without them, a request is refused before its values are looked at."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
    | st.sampled_from([0, 0.5, 70, "0.5", "time", "temperature", "product", 1e308, -1e308, 5e-324]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


OPERATIONS = [
    (path, method) for path, item in described("0")["paths"].items() for method in item if "/events" not in path
]
"""Of the description; streams have no end."""


@st.composite
def requests(draw: Any, operation: Any) -> tuple[str, dict[str, Any]]:
    """Draw a request: its address, and what else httpx wants."""
    import schemathesis  # takes seconds

    case = draw(operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    if draw(st.booleans()):
        case.path_parameters = {"study": "lab", "number": draw(st.integers(0, 9))}
    sent: dict[str, Any] = {"params": case.query or {}}
    if not isinstance(case.body, dict):
        return case.formatted_path, sent | {"content": str(case.body), "headers": {"Content-Type": "application/json"}}
    known = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
    for name in case.body:
        if draw(st.booleans()):
            case.body[name] = draw(known | VALUES)
    if draw(st.booleans()) and case.path.endswith(("check", "studies")):
        case.body = {**FORM, **case.body}
    return case.formatted_path, sent | {"json": case.body}


@pytest.fixture
def web(lab: Path) -> Iterator[TestClient]:
    (lab / "old.csv").write_text(
        "temperature,time,product,impurity\n70,1,0.4,0.02\n80,2,0.6,0.05\n90,4,0.7,0.09\n95,5,0.71,0.1\n"
    )
    pied_("add", "lab.toml", "old.csv")
    app = client(lab, "lab.toml").app
    logging.disable(logging.CRITICAL)  # of refused formulas
    yield TestClient(app, base_url="http://127.0.0.1:1", headers={"X-Pied-Token": "a-token-of-the-tests"})
    logging.disable(logging.NOTSET)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_request_gets_an_answer_of_the_description(web: TestClient, path: str, method: str) -> None:
    operation = pytest.importorskip("schemathesis").openapi.from_dict(described("0"))[path][method]

    @settings(max_examples=EXAMPLES // len(OPERATIONS), deadline=None, suppress_health_check=list(HealthCheck))
    @given(request=requests(operation))
    def check(request: tuple[str, dict[str, Any]]) -> None:
        at, sent = request
        answer = web.request(method, at, **sent)
        assert str(answer.status_code) in operation.definition.raw["responses"], answer.text[:300]
        assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text[:300]
        if answer.status_code >= 400:
            assert answer.json()["error"]

    check()
