"""Read and write the course's own files. Nothing in a file is trusted: a run or a model may come from someone else.

All JSON is read by `read_json` and `read_rows`, which check the size, the encoding and the nesting. `convert` then
checks each value against the type that the code expects, such as a dataclass of settings. Any mistake raises a
`UserError` that names the file and the field.
"""

import errno
import hashlib
import io
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from itertools import repeat
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from transformer.errors import UserError, quote, shorten

MAX_BYTES = 64_000_000
"""The largest JSON file that is read. Those of the longest run are a hundred times smaller."""
MAX_DIGITS = 18
"""Longer whole numbers are rejected: no setting or measurement is that large, and 64 bits could not hold them."""

NONBLOCKING: int = getattr(os, "O_NONBLOCK", 0)  # Windows doesn't have it

T = TypeVar("T")


class InvalidFileError(UserError):
    """A file of a checkpoint or of a run is missing or damaged. A run can resume from an earlier checkpoint instead."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write a temporary file and rename it, so that a complete file, old or new, exists at every moment.

    Raises:
        OSError: if it can't be written, or would replace something that is not a file, such as a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # as for any new file; only its owner can access a temporary one
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def check_writable(path: Path) -> None:
    """Check that a file can be written, before starting the work that produces its content.

    Raises:
        UserError: if its folder doesn't exist, or no file can be created there.
    """
    try:
        if not path.parent.is_dir():
            raise UserError(f"cannot write {path}: there is no folder {path.parent}; create it, or choose another file")
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a file'}")
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def write_output(path: Path, data: bytes) -> None:
    """Write a file that the user asked for, like `write_atomically`.

    Raises:
        UserError: if it can't be written.
    """
    try:
        write_atomically(path, data)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def read_bytes(path: Path, name: str = "", max_bytes: int | None = None) -> bytes:
    """Read a whole file. A pipe or a device in its place is rejected, never waited for.

    Args:
        path: the file.
        name: what to call it in messages, if not by its path.
        max_bytes: the largest size that is read.

    Raises:
        InvalidFileError: if it is missing, is not a file, is too large, or has a name that no file can have.
        UserError: if it exists but can't be read, such as one without read permission.
    """
    name = name or str(path)
    not_a_file = InvalidFileError(f"cannot read {name}: it is not a file")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise not_a_file
        # A virtual file, such as one in /proc, may never end, or keep its reader waiting.
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | NONBLOCKING)) as file:
            data = file.read() if max_bytes is None else file.read(max_bytes + 1)
    except FileNotFoundError:
        raise InvalidFileError(f"{name} is missing") from None
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from None
    except ValueError as error:  # a name that no file can have
        raise InvalidFileError(f"cannot read {name}: {error}") from None
    if data is None:
        raise not_a_file
    if max_bytes is not None and len(data) > max_bytes:
        raise InvalidFileError(f"cannot read {name}: it is larger than {max_bytes / 1e6:.0f} MB")
    return data


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file in hexadecimal, without reading the whole file into memory."""
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def read_text(path: Path, kind: str = "") -> str:
    """Read a small text file.

    Args:
        path: the file.
        kind: what it is, for messages, such as "the manifest".

    Raises:
        InvalidFileError: as for `read_bytes`, and if it is not UTF-8.
        UserError: if it exists but can't be read, such as one without read permission.
    """
    name = f"{kind} {path}".strip()
    try:
        return io.TextIOWrapper(io.BytesIO(read_bytes(path, name, MAX_BYTES)), "utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{name} is not UTF-8: {error}") from None


def parse_json(text: str, name: str) -> Any:
    """Parse JSON.

    Args:
        text: the JSON.
        name: the name of the file, and perhaps the line, for messages.

    Raises:
        InvalidFileError: if it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidFileError(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise InvalidFileError(f"{name} is not JSON: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a run folder.

    Raises:
        InvalidFileError: if the file is missing or does not contain a JSON object.
        UserError: if the file exists but can't be read, such as one without read permission.
    """
    if not path.exists():
        reason = "" if (path.parent / "recipe.json").exists() else "is not a run folder: it "
        raise InvalidFileError(f"{path.parent} {reason}has no {path.name}")
    return convert(parse_json(read_text(path), str(path)), dict[str, Any], str(path))


def read_rows(path: Path, required: Iterable[str] = (), row_type: Any = dict[str, float]) -> list[dict[str, Any]]:
    """Read one JSON object per line; an incomplete last line, left by a crash, is skipped.

    Args:
        path: the file; if it is missing, there are no rows.
        required: keys that each row must have.
        row_type: the type of each row.

    Raises:
        InvalidFileError: if a line is not such an object.
        UserError: if the file exists but can't be read, such as one without read permission.
    """
    if not path.exists():
        return []
    *lines, last = read_text(path).split("\n")
    rows = []
    if last.endswith("}"):  # otherwise the row was cut off when the process was killed
        lines.append(last)
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        row = convert(parse_json(line, where), row_type, where)
        for key in required:
            if key not in row:
                raise InvalidFileError(f"{where}: {key} is missing")
        rows.append(row)
    return rows


def convert(value: Any, expected: Any, where: str) -> Any:
    """Check that a value from JSON has the expected type, and convert it: an object to a dataclass, a list to a tuple.

    Args:
        value: what ``json.loads`` returned, or a part of it.
        expected: ``str``, ``int``, ``float``, ``bool``, ``NoneType``, ``Any``, a ``Literal``, a union,
            ``Annotated[str, pattern, pattern in words]``, a ``list``, ``tuple`` or ``dict`` of such types, or a
            dataclass with such fields.
        where: the file and the field, for messages.

    Raises:
        InvalidFileError: if the value has another type, or a dataclass rejects it because it is out of range.
    """
    origin, arguments = get_origin(expected), get_args(expected)
    if expected in (int, float) and isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise InvalidFileError(f"{where} must have at most {MAX_DIGITS} digits; got {quote(value)}")
    if expected is Any:
        return value
    if expected is NoneType:
        if value is None:
            return None
    elif origin is Literal:
        if value in arguments and isinstance(value, str):
            return value
    elif origin is Annotated:
        if isinstance(value, str) and re.fullmatch(arguments[1], value):
            return value
    elif origin in (Union, UnionType):
        for member in arguments:
            with suppress(InvalidFileError):
                return convert(value, member, where)
    elif expected is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    elif expected in (bool, int, str):
        if type(value) is expected:
            return value
    elif origin is dict:
        if isinstance(value, dict):
            return {
                convert(key, arguments[0], f"{where}: a key"): convert(member, arguments[1], f"{where}: {shorten(key)}")
                for key, member in value.items()
            }
    elif origin in (list, tuple):
        any_length = origin is list or arguments[1] is ...
        if isinstance(value, list) and (any_length or len(value) == len(arguments)):
            types = repeat(arguments[0]) if any_length else arguments
            return origin(convert(*item, f"{where}[{i}]") for i, item in enumerate(zip(value, types, strict=False)))
    elif is_dataclass(expected) and isinstance(value, dict):
        return _dataclass(value, cast(type, expected), where)
    raise InvalidFileError(f"{where} must be {_name(expected)}; got {quote(value)}")


def check_fields(settings: Any, section: str) -> None:
    """Check that the values of a dataclass have the types that its fields declare.

    Dataclasses of settings call this from ``__post_init__``.

    Args:
        settings: the dataclass.
        section: the name of these settings, for messages.

    Raises:
        UserError: if a value has another type.
    """
    for name, expected in get_type_hints(type(settings), include_extras=True).items():
        if not is_dataclass(value := getattr(settings, name)):
            try:
                convert(value, expected, f"{section}.{name}")
            except InvalidFileError as error:
                raise UserError(error) from None


def _dataclass(value: Mapping[str, Any], expected: type[T], where: str) -> T:
    """Create a dataclass from an object with its fields."""
    types = get_type_hints(expected, include_extras=True)
    known = {field.name: field for field in fields(cast(Any, expected))}
    for name in value:
        if name not in known:
            names = shorten(", ".join(known))
            raise InvalidFileError(
                f"{where}: {quote(name)} is unknown; is the file from another version of this package? "
                f"This one knows {names}"
            )
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidFileError(f"{where}: {name} is missing")
    members = {name: convert(member, types[name], f"{where}: {name}") for name, member in value.items()}
    try:
        return expected(**members)
    except InvalidFileError:
        raise
    except UserError as error:
        raise InvalidFileError(f"{where}: {error}") from None


def _name(expected: Any) -> str:
    """Return what a type is called in a message."""
    if get_origin(expected) in (Union, UnionType):
        return " or ".join(map(_name, get_args(expected)))
    names = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}
    if get_origin(expected) is Literal:
        return f"one of {', '.join(map(str, get_args(expected)))}"
    if get_origin(expected) is Annotated:
        return str(get_args(expected)[2])
    if get_origin(expected) in (list, tuple):
        arguments = get_args(expected)
        return f"a list of {len(arguments)} values" if len(arguments) > 1 and ... not in arguments else "a list"
    return names.get(expected, "a JSON object")
