"""The description of the interface, OpenAPI 3.1, made from the table of actions."""

from collections.abc import Mapping
from typing import Any

from pied.web.actions import PICTURES, STUDY_ACTIONS, TRIAL_ACTIONS

_ERRORS = {
    "400": "This is not a JSON object, or not one that can be read.",
    "401": "The token is missing or wrong.",
    "403": "Read only, or a request of another page.",
    "404": "There is no such study or trial.",
    "409": "It contradicts what was told before, or there is no answer; with the header Retry-After: not yet.",
    "413": "The request is too large; the message names the limit.",
    "415": "The header Content-Type: application/json is missing.",
    "422": "A field or value cannot be taken; the message is that of the shell.",
    "503": "The store cannot be reached just now: send the request again, after the seconds of Retry-After.",
    "507": "The disk of the server is full.",
}


def described(version: str) -> dict[str, Any]:
    """Return the description."""
    study = "/api/studies/{study}"
    paths: dict[str, Any] = {
        "/api/studies": {
            "get": _get("All studies and where they stand."),
            "post": _post("A new study from a form; writes a problem file.", {"name": "of the study",
                          "goals": "list of rows: sense, formula, name, unit", "variables": "list of rows",
                          "outputs": "list of rows", "limits": "list of rows", "constants": "list of rows"}),
        },
        "/api/check": {"post": _post("Check a form; nothing is written.", {})},
        study: {"get": _get("A study: question, variables, outputs, limits, constants, status.", _STUDY)},
        f"{study}/trials": {"get": _get("All trials; ?state=asked for the open ones, ?after=12 for newer ones; "
                                        "with ?wait=60 the answer waits as many seconds until there is one.",
                                        [*_STUDY, *_query("state", "after", "wait")])},
        f"{study}/result": {"get": _get("The recommendation, as data and in words; ?given=T=80.",
                                        [*_STUDY, *_query("rule", "given")])},
        f"{study}/history": {"get": _get("Who did what, when and why; ?trial=3 for one trial.",
                                         [*_STUDY, *_query("trial")])},
        f"{study}/form": {"get": _get("The question as a form, and the text of its file.", _STUDY)},
        f"{study}/events": {"get": _get("Changes as they happen (server-sent events).", _STUDY)},
        f"{study}/table": {"post": {"summary": "A CSV or Excel file as the body; ?name=old.csv. A filled-in plan is "
                                    "told, other tables are added as older data.",
                                    "parameters": [*_STUDY, *_query(*_TABLE)],
                                    "requestBody": {"content": {"application/octet-stream": {"schema": {}}}},
                                    "responses": _responses()}},
    }  # fmt: skip
    for word, each in STUDY_ACTIONS.items():
        paths[f"{study}/{word}"] = {"post": _post(each.purpose, each.fields, _STUDY)}
    for word, each in TRIAL_ACTIONS.items():
        paths[f"{study}/trials/{{number}}/{word}"] = {"post": _post(each.purpose, each.fields, [*_STUDY, _NUMBER])}
    fields = {"at": "a point by variable", "across": "variable of a map", "up": "the other one"}
    for kind in PICTURES:
        paths[f"{study}/{kind}"] = {"post": _post(f"The data of a picture: {kind}.", fields, _STUDY)}
    for name in ("export.csv", "export.xlsx", "export.json", "plan.csv", "plan.xlsx", "report.html"):
        paths[f"{study}/{name}"] = {"get": _get(f"Download {name}.", _STUDY)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "pied dashboard", "version": version,
                 "description": "Every request needs the token: X-Pied-Token: ... or Authorization: Bearer ..."},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Pied-Token"}}},
        "security": [{"token": []}],
    }  # fmt: skip


_STUDY = [{"name": "study", "in": "path", "required": True, "schema": {"type": "string"}}]
_TABLE = ("name", "worker", "anyway", "again", "yes", "campaign")
_NUMBER = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}


def _query(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]


def _get(summary: str, parameters: Any = ()) -> dict[str, Any]:
    return {"summary": summary, "parameters": list(parameters), "responses": _responses()}


def _post(summary: str, fields: Mapping[str, str], parameters: Any = ()) -> dict[str, Any]:
    properties = {name: {"description": meaning} for name, meaning in fields.items()}
    content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
    return {"summary": summary, "parameters": list(parameters), "requestBody": {"content": content},
            "responses": _responses()}  # fmt: skip


def _responses() -> dict[str, Any]:
    return {"200": {"description": "Done."}, "201": {"description": "Made."}} | {
        code: {"description": said} for code, said in _ERRORS.items()
    }
