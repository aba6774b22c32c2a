"""Whether what was declared is of the types that the dataclass says: told in words, before anything is made of it."""
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

_FOUND_CHARACTERS_MAX = 120


def problems(declared, path=""):
    """What does not fit, each as ``field: what it takes; found …``. ``Annotated[int, 1]``: a whole number of at least 1."""
    for field in fields(declared):
        value = getattr(declared, field.name)
        if value is not field.default:
            yield from _problems(value, field.type, path + field.name)
        if is_dataclass(value) and not isinstance(value, type):
            yield from problems(value, f"{path}{field.name}.")


def _problems(value, wanted, path):
    """Of the smallest part that is wrong: one entry of a dict, one of a list."""
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Mapping and isinstance(value, Mapping):
        for key, entry in value.items():
            if not _fits(key, parts[0]):
                yield f"{path}: {_words(wanted)}; found the key {_found(key)}"
            yield from _problems(entry, parts[1], f"{path}[{key!r}]")
    elif origin is Sequence and isinstance(value, (list, tuple)):
        for n, entry in enumerate(value):
            yield from _problems(entry, parts[0], f"{path}[{n}]")
    elif not _fits(value, wanted):
        yield f"{path}: {_words(wanted)}; found {_found(value)}"


def _fits(value, wanted):
    origin, parts = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Annotated:
        return _fits(value, parts[0]) and value >= parts[1]
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if origin is Callable:
        return _can_be_called(value, len(parts[0]))
    if origin is type:
        return isinstance(value, type) and issubclass(value, parts[0])
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(key, parts[0]) and _fits(entry, parts[1])
                                                  for key, entry in value.items())
    if origin is Sequence:
        return isinstance(value, (list, tuple)) and all(_fits(entry, parts[0]) for entry in value)
    if origin is tuple:
        return isinstance(value, (list, tuple)) and len(value) == len(parts) and all(map(_fits, value, parts))
    return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))


def _can_be_called(value, count):
    """With so many arguments, and does its work when it is: a coroutine or a generator only promises to."""
    if not callable(value) or _is_lazy(value):
        return False
    try:
        inspect.signature(value, follow_wrapped=False).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass  # one of C's that does not tell
    return True


def _is_lazy(value):
    return any(lazy(one) for one in (value, getattr(value, "__call__", None)) for lazy in (
        inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction))


def _words(wanted):
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        if str in parts and Mapping[str, str] in parts:
            others = (part for part in parts if part not in (str, Mapping[str, str]))
            parts = ("a text (or a dict of it by language)", *others)
        return " or ".join(part if isinstance(part, str) else _words(part) for part in parts)
    if origin is Annotated:
        return f"{_words(parts[0])} of at least {parts[1]}"
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin is Callable:
        return f"a function that takes {len(parts[0])} argument{'s' * (len(parts[0]) > 1)} (no async def, no yield)"
    if origin is type:
        return "a pydantic model (the class)"
    if origin is Mapping:
        return f"a dict by name, of each {_words(parts[1])}"
    if origin is Sequence:
        return f"a list, each {_words(parts[0])}"
    if origin is tuple:
        return f"({', '.join(map(_words, parts))})"
    return {str: "a text", int: "a whole number", float: "a number", bool: "True or False", NoneType: "None",
            Any: "anything"}.get(wanted) or f"a {wanted.__name__}(…)"


def _found(value):
    if inspect.isroutine(value):
        how = "async def " if inspect.iscoroutinefunction(value) else "def "
        try:
            text = f"{how}{value.__name__}{inspect.signature(value, follow_wrapped=False)}"
        except ValueError:
            text = repr(value)
        text += ", with yield" * (inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value))
    else:
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _FOUND_CHARACTERS_MAX else text[:_FOUND_CHARACTERS_MAX - 1] + "…"
