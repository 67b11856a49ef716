"""Translation of pydantic's validation errors into one line of error and one of hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from drivebay.common.errors import UserError, did_you_mean

_WORDS = (
    ("Input should be", "must be"),
    ("a valid ", "a "),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "more than"),
    ("an instance of", "a"),
    ("a integer", "a whole number"),
    ("a array", "a list"),
    ("an object", "a table"),
)


def first(problem: ValidationError) -> ErrorDetails:
    """Selects the error to report. An unknown key goes before a missing one, as it is most often
    a misspelling of that one. An error of a whole load is located at the field that the core
    names.
    """
    errors = problem.errors(include_url=False)
    error = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    field = getattr(error.get("ctx", {}).get("error"), "field", None)
    return error if field is None else {**error, "loc": (*error["loc"], field)}


def user_error(
    error: ErrorDetails, field: str, *, document: str, hint: str, known: Iterable[str] = ()
) -> UserError:
    """Converts a validation error to a UserError.

    Parameters
    ----------
    field :
        its location, in the file's own terms.
    document :
        the kind of document: "a suite".
    hint :
        advice that fits any error in the document.
    known :
        keys that an unknown one may be a misspelling of.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        hint = did_you_mean(str(error["loc"][-1]), known) + hint
        return UserError(f"{field} is not a key of {document}", hint)
    if kind == "missing":
        return UserError(f"{field} is missing", f"add it; {hint}")
    if kind == "value_error":
        return UserError(f"{field}: {context['error']}" if field else str(context["error"]), hint)
    rule = f"must be {context['expected']}" if kind == "literal_error" else error["msg"]
    for theirs, ours in _WORDS:
        rule = rule.replace(theirs, ours)
    given = repr(error["input"])
    given = given if len(given) <= 60 else given[:57] + "..."
    message = f"{field}: {given} is not allowed; {rule[:1].lower()}{rule[1:]}"
    return UserError(message, f"change {field.rsplit(': ', 1)[-1]}; {hint}")


def dotted(parts: Sequence[int | str], *, count_from: int = 0) -> str:
    """Formats the location of a value in a document.

    >>> dotted(("parameters", 0, "low"), count_from=1)
    'parameters[1].low'
    """
    text = ""
    for part in parts:
        text += f"[{part + count_from}]" if isinstance(part, int) else f".{part}" if text else part
    return text
