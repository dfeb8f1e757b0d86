"""Values that are named once for many: below a table's header, in the rows of an INSERT, in a list under a plural.

A table is lines of fields parted by commas, semicolons, tabs, bars or two blanks and more. A line is a header where one
of its fields is a telling name, the others are names too, and a row soon below has as many fields; or where it says
that a column holds names and another their values: then each row's name tells. Each line is looked at a few times at
most: the work is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tracer.redaction.gate import Called, Key
from tracer.redaction.rule_pack import telling_name
from tracer.redaction.rule_set import CHECKS, RANK_NAMED, Find, compiled

KEY: Final = "secret-column"
_LEAST, _LEAST_KEY, _LONGEST = 6, 16, 400
_LONGEST_HEADER = 4096
_ODD = 3  # lines with other numbers of fields that may follow one another within a table
_BOX: Final = "│".encode()
_BLANKS: Final = b"  "
_LEAST_COLUMNS: Final = 2
_BARS: Final = (_BOX, b"|")
_SEPARATORS: Final = (b"\t", _BOX, b"|", b",", b";", _BLANKS)
_AROUND: Final = b" \t\r\"'`"
_RULE = re.compile(rb"(?:[\s=|:+-]|\xe2[\x94\x95][\x80-\xbf])*")
_COLUMN = re.compile(rb"[^ \t\r](?: ?[^ \t\r])*")
_QUOTED = {
    sign: re.compile(rb'[ ]*"(?:[^"\\]|""|\\.)*"[ ]*(?=%s|\r?\Z)|[^%s]*' % (sign, sign)) for sign in (b"\t", b",", b";")
}
_NAME, _NAME_END = (
    telling_name(part).replace("[._-]", "[ ._-]").replace("[_-]", "[ _-]") for part in ("name", "name_end")
)
_PUT = r"""["'\x60*]{0,3}"""
_TELLING: Any = compiled(rf"(?i)[ ]*{_PUT}({_NAME}){_PUT}\s*(?:\x{{2502}}\s*)?")
# What a line of a log begins with, and a name; what stands before a text that is a string of another one.
_FIRST: Any = compiled(r"[\pL\w\s\x{a0}\x{2502}'\"\x60*:.,;/\[\]()@$#+>|_-]*")
_WITHIN: Any = compiled(r"^.*(?:[:=][ ]?[\"'\x60]|\()")
_WORDS = re.compile(rb"\s*[\w.]+(?:\s+[\w.]+){3,}\s*")  # a statement, or a sentence
_CODE = re.compile(rb"#\w")
_TELLING_FIRST: Any = compiled(rf"(?i)(?:^|[\s\x{{a0}}:>|+]){_PUT}({_NAME}){_PUT}\s*$")
_PLAIN: Any = compiled(
    rf"\s*{_PUT}(?:#|[\pL_][\w./%?*-]{{0,40}}(?: [\w#./()%?*-]{{1,40}}){{0,4}})?{_PUT}\s*(?:\x{{2502}}\s*)?"
)
_END_OF_STRING = re.compile(rb"""(?:["'`][\s,;)}\]]*|[)}\]]+[.,;]?)\Z""")
_NAMING: Final = r"(?:key|(?:key|variable)?_?name|variable|setting)"
_PAIRS = (
    rf"(?i)\b{_NAMING}{_PUT}[ \t]*(?:[,;|\t]|│|  )(?:[\w \t,;|\"'\x60*.-]|│)*?"
    rf"\bvalue{_PUT}(?:[ \t]*[,;|\t\r\n]|[ \t]*│|  |$)"
)
PATTERNS: Final[Mapping[Key, str]] = {
    KEY: rf"(?i){_NAME_END}{_PUT}(?:[ \t]*[,;|\t\r\n]|[ \t]*│|  )",
    "secret-pairs": _PAIRS,
    "secret-insert": rf"(?i){_NAME_END}{_PUT}\]?\s*(?:,[^()]*)?\)\s*(?:values|from[ ]stdin)",
    "secret-cells": rf"(?i){_NAME_END}[:*]?\s*</(?:\w+>\s*</)?th>",
    "secret-list": rf"(?i){_NAME_END}s{_PUT}[ \t]*(?::|:?=|=>)[ \t]*(?:[\[({{]|\r?\n)",
}
_FOUND: Any = compiled(rf"(?i)({_NAME_END}){_PUT}[ \t]*(?:[,;|\t\r\n]|\x{{2502}}|  |$)")
_FOUND_PAIRS: Any = compiled(_PAIRS)
_NAMES: Any = compiled(rf"(?i)(?:.*[ \t])?{_PUT}{_NAMING}{_PUT}\s*")
_VALUES: Any = compiled(rf"(?i)\s*{_PUT}value{_PUT}\s*(?:\x{{2502}}\s*)?")
_INSERT: Any = compiled(PATTERNS["secret-insert"].replace("(?:values", "(values"))
# Possessive, and bounded: no text makes them go back over what they read.
_ROW = re.compile(rb"[ \t\r,]{0,200}+(?:\n[^\n(]{0,80}+)?\(")
_SQL_STRING = rb"""'(?:[^'\\]|''|\\.){0,4000}+'|"[^"\n]{0,4000}+\""""
_SQL_VALUE = re.compile(
    rb"\s{0,200}+((?:[^,()'\"\s]|\s|%s|\((?:[^()'\"]|%s){0,4000}+\)){0,4000}+)([,)])" % (_SQL_STRING, _SQL_STRING),
    re.DOTALL,
)
_STRING = re.compile(rb"(['\"])(.*?)\1", re.DOTALL)
_CELLS: Any = compiled(rf"(?i){_NAME_END}[:*]?\s*</(?:\w+>\s*</)?th>")
_CELL = re.compile(
    rb"<t[dh]\b[^<>]{0,400}+>\s{0,80}+(?:<[a-z][^<>]{0,400}+>\s{0,80}+){0,4}([^<>]{0,800}+)"
    rb"(?:</\w+>\s{0,80}+){0,4}</t[dh]>|<tr\b|</table",
    re.IGNORECASE,
)
_LIST: Any = compiled(rf"(?i)({_NAME_END})s{_PUT}[ \t]*(?::|:?=|=>)[ \t]*([\[({{]|\r?\n)")
_BEFORE_ITEM: Final = rb"\s{0,80}(?:\n[^\n\"'\]]{0,80})?"
_ITEM = re.compile(
    rb"%s(?:\"((?:[^\"\\\n]|\\.){0,800}+)\"|'([^'\n]{0,800}+)'|([^\s,\[\](){}\"':]{1,400}+))%s[,\])}]"
    % (_BEFORE_ITEM, _BEFORE_ITEM.replace(rb"\]", rb"\],"))
)
_LINE_ITEM = re.compile(
    rb"(?:[^\n]{0,120}?[^\w\n-])??-[ \t]{1,20}+(?:\"([^\"\n]{1,400}+)\"|'([^'\n]{1,400}+)'|([^\s\"']{1,400}+))"
    rb"(?:[ \t]{1,20}+#[^\n]{0,400})?[ \t\r]{0,20}(?:\n|\Z)"
)
_NEAR: Final = 4096
# A password may be made of words, where its column says so.
_PASSWORD: Any = compiled(r"(?i)(?:passw(?:or)?d|passphrase|passcode|pass|pwd|pw|psw|pword)$")
_LABEL = re.compile(rb"[a-z]+(?:[-.][a-z0-9]+)+")  # of an object in a cluster
_RUN = re.compile(rb"[A-Za-z0-9+/=_]{%d,}" % _LEAST_KEY)


class Table(NamedTuple):
    """The rows from `start` to `end` below a header, whose number of fields is `fields`; the secret ones by place."""

    header: bytes
    start: int
    end: int
    finds: list[Find]


class _Header(NamedTuple):
    separator: bytes
    fields: list[bytes]
    starts: list[int]
    telling: dict[int, bytes]
    end: int
    string: bool  # it stands in a string of another text
    names: int = -1  # the column whose names tell of the value beside them

    def name_of(self, place: int, row: bytes, fields: list[tuple[int, int]]) -> bytes:
        """What tells of the value at a place of `row`; empty: nothing does."""
        if self.names < 0:
            return self.telling[place]
        told = _TELLING_FIRST.search(row[slice(*fields[self.names])])
        return told.group(1) if told is not None else b""


class Columns:
    """Finds the values of secret columns."""

    def finds(self, data: bytes, called: Called | None = None) -> Iterator[Find]:
        """Each of them, by the ways to tell of many; those that were not `called` find none."""
        for key, tables in _WAYS.items():
            if called is None or key in called:
                for table in tables(data):
                    yield from table.finds


def open_header(data: bytes) -> bytes:
    """The header of the table that `data` ends within, with its line end: more rows may follow; else nothing."""
    header = b""
    for table in _tables(data):
        header = table.header if table.end == len(data) else b""
    return header


def _tables(data: bytes, found: Any = _FOUND) -> Iterator[Table]:
    at = 0
    while (match := found.search(data, at)) is not None:
        place = match.end(1 if found is _FOUND else 0) - 1
        start = max(data.rfind(b"\n", at, place) + 1, at)
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        at = end + 1
        header = _header(data, start, end) if end - start <= _LONGEST_HEADER else None
        if header is not None and (table := _table(data, header, data[start:end])) is not None:
            yield table
            at = max(table.end, at)
        if at >= len(data):
            return


def _header(data: bytes, start: int, end: int) -> _Header | None:
    line = data[start:end]
    if _CODE.search(line) is not None or line.rstrip().endswith(b","):  # a list in code
        return None
    within = _WITHIN.match(line)
    string = within is not None
    line = line[within.end() if string else 0 :]
    for separator in _SEPARATORS:
        if separator in line:
            spans = _fields(line, separator)
            fields = [line[left:right] for left, right in spans]
            if not fields:  # blanks alone
                continue
            told = (_TELLING_FIRST.search(fields[0]), *map(_TELLING.fullmatch, fields[1:]))
            telling = {place: match.group(1) for place, match in enumerate(told) if match is not None}
            names = -1
            if not telling:
                names, telling = _of_pairs(fields)
            if telling and _are_names(fields, separator):
                return _Header(separator, fields, [left for left, _ in spans], telling, end + 1, string, names)
    return None


def _of_pairs(fields: list[bytes]) -> tuple[int, dict[int, bytes]]:
    """Which column holds names, and which their values."""
    values = [place for place, field in enumerate(fields) if _VALUES.fullmatch(field)]
    names = [place for place, field in enumerate(fields) if _NAMES.fullmatch(field)]
    return (names[0], {values[-1]: b""}) if names and values else (-1, {})


def _are_names(fields: list[bytes], separator: bytes) -> bool:
    if sum(1 for field in fields if field.strip(_AROUND)) < _LEAST_COLUMNS or any(map(_is_open, fields)):
        return False
    if _FIRST.fullmatch(fields[0]) is None or (separator == b"," and _WORDS.fullmatch(fields[0])):
        return False
    others = fields[1:] if separator not in _BARS else fields[1:][-_LEAST_COLUMNS:]
    return all(map(_PLAIN.fullmatch, others))


def _is_open(field: bytes) -> bool:
    """Whether a string begins in it and ends elsewhere, as in code."""
    return any(field.count(quote) % 2 for quote in (b"'", b'"', b"`"))


def _fields(line: bytes, separator: bytes) -> list[tuple[int, int]]:
    if separator == _BLANKS:
        return [match.span() for match in _COLUMN.finditer(line)]
    spans, at = [], 0
    if b'"' in line and separator in _QUOTED:
        quoted = _QUOTED[separator]
        while at <= len(line):
            match = quoted.match(line, at)
            end = match.end() if match is not None else len(line)
            spans.append((at, end))
            at = end + 1
        return spans
    for part in line.split(separator):
        spans.append((at, at + len(part)))
        at += len(part) + len(separator)
    return spans


def _table(data: bytes, header: _Header, line: bytes) -> Table | None:
    """The table below `header`; none without a row of as many fields as it has."""
    finds: list[Find] = []
    at = reach = header.end
    odd = rows = 0
    while at < len(data) and odd <= _ODD:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        row = data[at:end]
        if not row.strip(b" \t\r\0"):
            break
        fields = _fields(row, header.separator)
        if len(fields) == len(header.fields) and _is_row(row, fields, header):
            rows, odd, reach = rows + 1, 0, min(end + 1, len(data))
            for place in header.telling:
                name = header.name_of(place, row, fields)
                left, right = _value(row, *fields[place], first=place == 0)
                if header.string and place == len(fields) - 1 and (ending := _END_OF_STRING.search(row, left, right)):
                    right = ending.start()
                if name and _is_secret(row[left:right], name):
                    finds.append(Find(at + left, at + right, RANK_NAMED, KEY, row[left:right]))
        elif not _RULE.fullmatch(row):
            odd += 1
        at = end + 1
    if at >= len(data) and odd <= _ODD:
        reach = len(data)
    return Table(line + b"\n", header.end, reach, finds) if rows or reach == len(data) else None


def _is_row(row: bytes, fields: list[tuple[int, int]], header: _Header) -> bool:
    """Whether it has columns of its own, besides what stands before each line of a log, and they stand below theirs."""
    left, right = fields[0]
    if header.separator == _BLANKS and not all(fields[place][0] == header.starts[place] for place in header.telling):
        return False
    if len(fields) <= _LEAST_COLUMNS:
        return not header.fields[0].strip() or row[left:right] != header.fields[0]
    others = (place for place in range(len(fields)) if place not in header.telling)
    return any(row[slice(*fields[place])].strip() != header.fields[place].strip() for place in others)


def _value(row: bytes, left: int, right: int, *, first: bool) -> tuple[int, int]:
    """The value in a field, without what it is put in; of the first one the last word, as a log's line has more."""
    field = row[left:right]
    inner = field.rstrip(_AROUND).removesuffix(_BOX).rstrip(_AROUND)
    begin = len(inner) - len(inner.lstrip(_AROUND))
    if first:
        begin = max(begin, inner.rfind(b" ") + 1, inner.rfind(b"\t") + 1)
    return left + begin, left + max(len(inner), begin)


def _is_secret(value: bytes, name: bytes) -> bool:
    if not _LEAST <= len(value) <= _LONGEST or b" " in value or b"\0" in value or not any(byte >= 65 for byte in value):
        return False
    if _PASSWORD.search(name) is not None:
        return CHECKS["chosen"](value)
    if _LABEL.fullmatch(value) is not None:
        return False
    run = max(_RUN.findall(value), key=len, default=b"")
    return CHECKS["random"](value) or CHECKS["mixed"](run) or CHECKS["random"](run)


def _inserts(data: bytes) -> Iterator[Table]:
    """Rows of an INSERT, or of the COPY of a dump, below their list of columns."""
    at = 0
    while (match := _INSERT.search(data, at)) is not None:
        at = match.end()
        opening = data.rfind(b"(", max(match.start() - _NEAR, 0), match.start() + 1) + 1
        columns = data[opening : data.find(b")", match.start())].split(b",") if opening else []
        told = map(_TELLING.fullmatch, (column.strip(b" \t\r\n[]") for column in columns))
        telling = {place: name.group(1) for place, name in enumerate(told) if name is not None}
        if not telling:
            continue
        if match.group(1).lower() != b"values":
            end = data.find(b"\n", at)
            header = _Header(b"\t", columns, [], telling, end + 1, string=False)
            if end >= 0 and (table := _table(data, header, match.group())) is not None:
                yield table
            continue
        finds: list[Find] = []
        while (opened := _ROW.match(data, at)) is not None:
            place, at = 0, opened.end()
            while (value := _SQL_VALUE.match(data, at)) is not None:
                at = value.end()
                string = _STRING.search(data, *value.span(1)) if place in telling else None
                if string is not None:
                    finds += _find(data, *string.span(2), telling[place])
                place += 1
                if value[2] == b")":
                    break
            if value is None:
                break
        yield Table(match.group(), match.end(), at, finds)


def _cells(data: bytes) -> Iterator[Table]:
    """Rows of a table of HTML below its header."""
    at = 0
    while (match := _CELLS.search(data, at)) is not None:
        start = at = max(data.rfind(b"<tr", max(match.start() - _NEAR, at), match.start()), at)
        telling: dict[int, bytes] = {}
        finds: list[Find] = []
        place, row = 0, -1
        while (cell := _CELL.search(data, at, at + _NEAR)) is not None:
            at = cell.end()
            if cell[0].startswith(b"</"):
                break
            if cell[1] is None:
                place, row = 0, row + 1
                continue
            text = cell[1].strip(b":* \t\r\n")
            if row <= 0 and (told := _TELLING.fullmatch(text)) is not None:
                telling[place] = told.group(1)
            elif row > 0 and place in telling:
                left = cell.start(1) + cell[1].find(text)
                finds += _find(data, left, left + len(text), telling[place])
            place += 1
        at = max(at, match.end())
        yield Table(data[start : match.end()], match.end(), at, finds)


def _lists(data: bytes) -> Iterator[Table]:
    """The values of a list whose name tells of each of them."""
    at = 0
    while (match := _LIST.search(data, at)) is not None:
        at, finds = match.end(), list[Find]()
        name = match.group(1).lower()
        item = _ITEM if match.group(2) in b"[({" else _LINE_ITEM
        while (value := item.match(data, at)) is not None:
            at = value.end()
            finds += _find(data, *value.span(value.lastindex or 0), name)
            if value[0][-1:] in b"])}":
                break
        yield Table(match.group(), match.end(), at, finds)


def _find(data: bytes, start: int, end: int, name: bytes) -> Iterator[Find]:
    if _is_secret(data[start:end], name):
        yield Find(start, end, RANK_NAMED, KEY, data[start:end])


_WAYS: Final[Mapping[Key, Callable[[bytes], Iterator[Table]]]] = {
    KEY: _tables,
    "secret-pairs": lambda data: _tables(data, _FOUND_PAIRS),
    "secret-insert": _inserts,
    "secret-cells": _cells,
    "secret-list": _lists,
}
