"""The schema of events for the intake: the models of `tracer.capture.events`, made to give plain dicts.

Same rules, same defaults, same order of fields; no instances, which took half of a batch's validation and which the
intake would only take apart. What it refuses, the models refuse: they say why.
"""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, SchemaValidator

from tracer.capture.events import Event

__all__ = ["checked_events"]

_MODELS: Final[TypeAdapter[list[Any]]] = TypeAdapter(list[Event])


def checked_events(sent: list[Any]) -> list[dict[str, Any]]:
    """The events as dicts with all their fields; those that were not sent have their defaults.

    Raises:
        ValidationError: they break the schema.

    """
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
