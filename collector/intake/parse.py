"""Parses a batch of sent events and validates it against the schema; inline content is taken out. Pure.

Every refusal names the event's index, the field and the rule; none repeats what was sent, since it may be a secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, SchemaValidator

from collector.config import IntakeLimits
from collector.errors import IntakeError, TooLargeError
from collector.intake.strict_json import BODY, check_json, parse_json, spelled
from tracer.capture.events import EVENT_TYPES, PAYLOADS, Event, Payload, blob_fields
from tracer.capture.fields import LAST_MS
from tracer.capture.wire import inline_name

_Model = TypeVar("_Model", bound=BaseModel)

_MODELS: Final[TypeAdapter[list[Any]]] = TypeAdapter(list[Event])


def checked_events(sent: list[Any]) -> list[dict[str, Any]]:
    """The events as dicts with all their fields; those that were not sent have their defaults."""
    try:
        return cast("list[dict[str, Any]]", _PLAIN.validate_python(sent))
    except ValidationError:
        _MODELS.validate_python(sent)  # its errors are the documented ones
        raise


def _plain(schema: Any, config: Any = None) -> Any:
    """A core schema with typed dicts in place of models; `config` is that of the model around it."""
    if isinstance(schema, list):
        return [_plain(each, config) for each in schema]
    if not isinstance(schema, dict):
        return schema
    match schema.get("type"):
        case "model":
            return _plain(schema["schema"], schema["config"])
        case "model-fields":
            fields = {
                name: {"type": "typed-dict-field", "required": field["schema"]["type"] != "default"}
                | {"schema": _plain(field["schema"])}
                for name, field in schema["fields"].items()
            }
            return {"type": "typed-dict", "fields": fields, "config": config}
        case "default" if isinstance(schema.get("default"), BaseModel):
            made = schema["default"].model_dump()
            return {"type": "default", "schema": _plain(schema["schema"]), "default_factory": lambda: dict(made)}
        case "function-before":  # they mend what is refused and leave the rest: called only where that is
            mended = {**schema, "schema": _plain(schema["schema"], config)}
            return {"type": "union", "mode": "left_to_right", "choices": [mended["schema"], mended]}
    return {name: _plain(inner, config) for name, inner in schema.items()}


_PLAIN: Final = SchemaValidator(cast("CoreSchema", _plain(_MODELS.core_schema)))


_PENDING: Final = "sha256:" + "0" * 64  # stands for a blob whose id is known once it is redacted
_IDENTITY_BYTES: Final = 16
_MOST_PROBLEMS: Final = 20
_NOTHING: Final[Mapping[str, str]] = {}
_TOP: Final = frozenset({"events", "sent_at_ms"})


class _Shape(NamedTuple):
    expected: frozenset[str]
    """Keys of the payload as it is sent; what else there is goes to `extra`."""
    inline: tuple[tuple[str, str], ...]
    """Inline name and blob field."""

    @classmethod
    def of(cls, model: type[Payload]) -> _Shape:
        inline = tuple((inline_name(field), field) for field in blob_fields(model))
        return cls(model.field_names - {"extra"} | {name for name, _field in inline}, inline)


_SHAPES: Final[dict[str, _Shape]] = {name: _Shape.of(model) for name, model in PAYLOADS.items()}


class Inline(NamedTuple):
    """Content that came inside an event, for its blob field."""

    field: str
    text: str


class ParsedEvent(NamedTuple):
    """An event that keeps every rule of the schema. Blob fields of `inline` hold a placeholder still."""

    event: dict[str, Any]
    """As `checked_events` gives it; nobody else has it."""
    type: str
    inline: Sequence[Inline]
    references: Mapping[str, str]
    """Blob field -> the id it was sent with."""
    identity: bytes


class ParsedBatch(NamedTuple):
    """A batch ready for redaction; `references` are the blob ids that its events name."""

    events: tuple[ParsedEvent, ...]
    sent_at_ms: int | None

    @property
    def references(self) -> frozenset[str]:
        """The ids of blobs that must be stored already."""
        return frozenset(blob_id for parsed in self.events for blob_id in parsed.references.values())


def parse_events(raw: bytes | Sequence[Any], *, key: bytes, limits: IntakeLimits) -> ParsedBatch:
    """The events in a request's body (or a list of event objects), checked; `key` keys `StoredEvent.identity`."""
    sent, sent_at_ms = _unwrapped(raw if isinstance(raw, bytes) else _written(raw), limits)
    if len(sent) > limits.batch_events:
        raise TooLargeError(
            f"the batch has {len(sent)} events", place="events", rule="batch_events", limit=limits.batch_events
        )
    identities = _identities(sent, key)
    shaped = [_shaped(event, at, limits) for at, event in enumerate(sent)]
    try:
        events = checked_events(sent)
    except ValidationError as error:
        raise refusal(error, prefix=("events",)) from error
    if not all(identities):
        raise IntakeError("an event is nested too deeply", place="events", rule="depth")
    return ParsedBatch(
        events=tuple(
            [
                ParsedEvent(event, event["type"], inline, references, identity)
                for event, identity, (inline, references) in zip(events, identities, shaped, strict=True)
            ]
        ),
        sent_at_ms=sent_at_ms,
    )


def _written(events: Sequence[Any]) -> bytes:
    """Events that did not come as JSON text, as they would have: they are held to the same rules."""
    try:
        return orjson.dumps({"events": list(events)})
    except orjson.JSONEncodeError as error:
        raise IntakeError("the events are no JSON", place="events", rule="json", why=str(error)) from error


def _unwrapped(raw: bytes, limits: IntakeLimits) -> tuple[list[Any], int | None]:
    if len(raw) > limits.batch_bytes:
        raise TooLargeError("the batch is too large", place=BODY, rule="batch_bytes", limit=limits.batch_bytes)
    value = parse_json(raw)
    if not isinstance(value, dict) or not isinstance(value.get("events"), list):
        raise IntakeError(
            "the body must be an object with a list of events", place="events", rule="list_type", why="see the schema"
        )
    if unknown := value.keys() - _TOP:
        place = spelled(min(unknown))
        raise IntakeError(f"{place} is no key of a batch", place=place, rule="extra_forbidden")
    sent_at_ms = value.get("sent_at_ms")
    if isinstance(sent_at_ms, float) and sent_at_ms.is_integer():
        sent_at_ms = int(sent_at_ms)
    if sent_at_ms is not None and (type(sent_at_ms) is not int or not 0 <= sent_at_ms <= LAST_MS):
        raise IntakeError("sent_at_ms is no time in milliseconds", place="sent_at_ms", rule="int_type")
    return value["events"], sent_at_ms


def _shaped(sent: Any, at: int, limits: IntakeLimits) -> tuple[Sequence[Inline], Mapping[str, str]]:
    """Replace inline content by placeholders and list the blobs named; what is odd is left for the schema to refuse."""
    payload = sent.get("payload") if isinstance(sent, dict) else None
    kind = sent.get("type") if payload is not None else None
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None or not isinstance(payload, dict):
        return (), _NOTHING
    if not payload.keys() <= shape.expected:
        for name in payload.keys() - shape.expected:
            check_json(payload[name], spelled("events", at, "payload", name))
    inline: Sequence[Inline] = ()
    references: Mapping[str, str] = _NOTHING
    for name, field in shape.inline:
        text = _taken(payload, name, field, at, limits) if name in payload else None
        if text is not None:
            inline = (*inline, Inline(field, text))
        elif isinstance(payload.get(field), str):
            references = {**references, field: payload[field]}
    return inline, references


def _taken(payload: dict[str, Any], name: str, field: str, at: int, limits: IntakeLimits) -> str | None:
    """Inline content `name` out of the payload; None where it is null."""
    text = payload.pop(name)
    if text is None:
        return None
    if not isinstance(text, str) or payload.get(field) is not None or len(text) * 4 > limits.inline_bytes:
        place = spelled("events", at, "payload", name)
        if not isinstance(text, str):
            raise IntakeError(f"{place} is no string", place=place, rule="string_type", next_step="send text")
        if payload.get(field) is not None:
            raise IntakeError(
                f"{place} came with {field}", place=place, rule="one_of", next_step=f"send {name} or {field}, not both"
            )
        if len(text.encode()) > (limit := limits.inline_bytes):
            next_step = f"upload it first and send {field}"
            raise TooLargeError(
                f"{place} is too large", place=place, rule="inline_bytes", limit=limit, next_step=next_step
            )
    payload[field] = _PENDING
    return text


def _identities(sent: Sequence[Any], key: bytes) -> list[bytes]:
    """Empty where an event is nested so deeply that it cannot be written: the schema or `check_json` refuse that."""
    keyed = hashlib.blake2b(key=key, digest_size=_IDENTITY_BYTES)  # taking in the key takes as long as 128 bytes
    identities = []
    for event in sent:
        try:
            written = orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            identities.append(b"")
            continue
        digest = keyed.copy()
        digest.update(written)
        identities.append(digest.digest())
    return identities


def refusal(error: ValidationError, *, prefix: tuple[str, ...] = (), value: object = None) -> IntakeError:
    """What the schema refuses in `value`, as an `IntakeError` that names the first problem; `problems` the first 20."""
    found = error.errors(include_url=False, include_input=False, include_context=True)
    told = _of_one_place([_problem(cast("dict[str, Any]", item), prefix, value) for item in found])
    place, rule, why = told[0].spelled
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    what = f"{place}: {why}{more}"
    if rule == "string_too_long":
        refused: IntakeError = TooLargeError(what, place=place, rule="field_length", limit=told[0].limit)
    else:
        refused = IntakeError(what, place=place, rule=rule, why=why)
    refused.problems = tuple(each.spelled for each in told[:_MOST_PROBLEMS])
    return refused


def validated(model: type[_Model], value: object) -> _Model:
    """The value as the model; IntakeError where its schema refuses it."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise refusal(error, value=value) from error


class _Problem(NamedTuple):
    """`choice` is where one of several forms was to stand that this problem is about; None where there was one form."""

    names: tuple[str | int, ...]
    rule: str
    why: str
    limit: int
    choice: tuple[str | int, ...] | None

    @property
    def spelled(self) -> tuple[str, str, str]:
        return spelled(*self.names) or BODY, self.rule, self.why


def _problem(item: dict[str, Any], prefix: tuple[str, ...], value: object) -> _Problem:
    """Place, rule and reason. What pydantic's path says of a union's members is no part of what was sent."""
    names, choice = _sent_names(item, value) if not prefix else (_event_names(item, prefix), None)
    rule, why = item["type"], item["msg"]
    if rule == "missing" and isinstance(names[-1], str) and names[-1].endswith("_blob_id"):
        why = f"Field required, or {inline_name(names[-1])} inline"
    if rule.startswith("union_tag_"):
        names.append("type")
        if rule == "union_tag_not_found":
            rule, why = "missing", "Field required"
        else:  # pydantic's words repeat what was sent
            why = f"must be one of {item['ctx']['expected_tags']}"
    if rule == "value_error":
        why = why.removeprefix("Value error, ")
    if rule in {"model_type", "dict_type"}:  # pydantic's words name our classes
        why = "Input should be an object"
    if rule in {"recursion_loop", "recursion_depth_exceeded"}:
        names, rule, why = names[:5], "depth", "nested too deeply"
    limit = int(item.get("ctx", {}).get("max_length", 0))
    return _Problem(tuple(names), rule, why, limit, choice)


def _event_names(item: dict[str, Any], prefix: tuple[str, ...]) -> list[str | int]:
    return [
        name for at, name in enumerate((*prefix, *item["loc"])) if not (at == len(prefix) + 1 and name in EVENT_TYPES)
    ]


def _sent_names(item: dict[str, Any], value: object) -> tuple[list[str | int], tuple[str | int, ...] | None]:
    """The path as far as it was sent, and where it goes through one of several forms."""
    names: list[str | int] = []
    choice = None
    for at, name in enumerate(item["loc"]):
        if (isinstance(value, dict) and name in value) or (isinstance(value, list) and isinstance(name, int)):
            value = value[name]
        elif not (item["type"] == "missing" and at == len(item["loc"]) - 1):
            choice = tuple(names)
            continue
        names.append(name)
    return names, choice


def _of_one_place(problems: Sequence[_Problem]) -> list[_Problem]:
    """Where one of several forms may stand: what is wrong in the one that was sent, else all that may stand there."""
    told: list[_Problem] = []
    for choice, run in groupby(problems, key=attrgetter("choice")):
        of_forms = list(run)
        if choice is None:
            told += of_forms
        elif within := [each for each in of_forms if each.names != choice]:
            told += within
        else:
            others = [each.why.removeprefix("Input should be ") for each in of_forms[1:]]
            told.append(of_forms[0]._replace(why=", or ".join([of_forms[0].why, *others])))
    return told
