"""Passwords of stores are never printed: not by a command, not in a hint, not in an error."""

import traceback
from pathlib import Path

import pytest

from pied import StoreError, Study
from pied.address import masked
from pied.records.sql import Store
from shells import pied_
from tiny import parabola

SECRET = "geheim-42"
NOWHERE = "postgresql+psycopg://{}127.0.0.1:1/lab"
PLACES = [
    f"sqlite://me:{SECRET}@/kept.db",
    f"sqlite:///kept.db?password={SECRET}",
    f"sqlite:///kept.db?timeout=5&sslpassword={SECRET}",
]
"""SQLite ignores passwords, so these addresses work without a server."""
ADDRESSES = [
    (f"postgresql://u:{SECRET}@h/db", "postgresql://u:***@h/db"),
    (f"postgresql+psycopg://:{SECRET}@h:5432", "postgresql+psycopg://:***@h:5432"),
    (f"postgresql://u:{SECRET}@x@h/db?a=b", "postgresql://u:***@h/db?a=b"),
    (f"postgresql://u:x {SECRET}@h/db", "postgresql://u:***@h/db"),
    (f"postgresql://u:x/{SECRET}?@h/db", "postgresql://u:***@h/db"),
    (f"postgresql://u@h/db?password={SECRET}&x=1", "postgresql://u@h/db?password=***&x=1"),
    (f"postgresql://u@h/db?sslpassword={SECRET}", "postgresql://u@h/db?sslpassword=***"),
    (f"no server at 'postgresql://u:{SECRET}@h/db': ask b@c.de", "no server at 'postgresql://u:***@h/db': ask b@c.de"),
    (f"host=h password='{SECRET} x' user=u", "host=h password=*** user=u"),
]
OPEN = [
    "sqlite:///lab.db",
    "postgresql://u@h:5432/db?passfile=/home/u/.pgpass",
    "lab.db",
    "sqlite:////a/b c.db",
    "a: b@c",
]


@pytest.mark.parametrize(("text", "shown"), ADDRESSES)
def test_a_password_is_hidden_and_the_rest_is_kept(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize("text", OPEN)
def test_an_address_without_a_password_stays_as_it_is(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(("place", "by"), [*((place, "option") for place in PLACES), (PLACES[0], "environment")])
def test_no_command_prints_the_password(lab: Path, monkeypatch: pytest.MonkeyPatch, place: str, by: str) -> None:
    option = ["--store", place] if by == "option" else []
    if by == "environment":
        monkeypatch.setenv("PIED_STORE", place)
    said = [
        pied_("status", "lab.toml", *option, code=(2, 3)),
        pied_("ask", "lab.toml", *option),
        pied_("ask", "lab.toml", "--csv", "sheet.csv", *option),
        pied_("ask", "lab.toml", "--json", *option),
        pied_("tell", "lab.toml", "1", "product", *option, code=2),
        pied_("status", "lab.toml", *option),
        pied_("status", "lab.toml", "--json", *option),
        pied_("result", "lab.toml", *option, code=3),
    ]
    assert not [each.output for each in said if SECRET in each.output or SECRET in each.stderr]
    assert ("--store" in said[1].output) == (by == "option")
    assert ("--store" in said[2].output) == (by == "option")
    assert "***" in said[5].output
    assert "***" in said[6].output


@pytest.mark.parametrize(
    "place",
    [
        NOWHERE.format(f"me:{SECRET}@"),
        NOWHERE.format("me@") + f"?password={SECRET}",
        NOWHERE.format("me@") + f"?sslpassword={SECRET}&nonsense=1",
        f"postgresql://me:{SECRET}@h:port/lab",
        f"postgresql://me:x:{SECRET}",
        f"mysql://me:{SECRET}@h/lab",
        f"://me:{SECRET}@h/lab",
    ],
)
def test_an_error_does_not_tell_the_password(lab: Path, place: str) -> None:
    shown = pied_("ask", "lab.toml", "--store", place, code=2)
    assert SECRET not in shown.output + shown.stderr
    with pytest.raises(StoreError) as caught:
        Study(parabola(), name="a", store=place)
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))
    assert SECRET not in str(caught.value.__cause__ or "")


def test_a_mistyped_call_does_not_repeat_the_password(lab: Path) -> None:
    shown = pied_("ask", "lab.toml", f"postgresql://me:{SECRET}@h/lab", code=2)
    assert SECRET not in shown.output + shown.stderr


def test_a_store_shows_its_place_alone(tmp_path: Path) -> None:
    with Store.connect(f"sqlite:///{tmp_path}/a.db?password={SECRET}") as store:
        assert SECRET not in repr(store) + store.url
        assert "a.db" in store.url
        with pytest.raises(StoreError, match="has no study 'b'") as caught:
            store.record("b")
        assert SECRET not in str(caught.value)
