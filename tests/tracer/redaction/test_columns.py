"""Values below a header that names them are secret, row by row; those of other columns stay."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.tracer.redaction.test_everyday import digits, key, password, phrase, word
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.streams import StreamRedactor, audit, redact_file

HEADERS = {
    password: ["password", "db_password", "Passwd", "pass", "PWD"],
    phrase: ["password", "passphrase"],
    key: ["api_key", "API Key", "Secret access key", "client_secret", "access_token", "secret"],
    digits: ["token", "api_key", "auth_token"],
}


def comma(rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def quoted(rows: list[list[str]]) -> str:
    return "".join(",".join(f'"{field}"' for field in row) + "\r\n" for row in rows)


def semicolons(rows: list[list[str]]) -> str:
    return "".join(";".join(row) + "\n" for row in rows)


def tabs(rows: list[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def _padded(rows: list[list[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [[field.ljust(width) for field, width in zip(row, widths, strict=True)] for row in rows]


def markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |\n" for row in _padded(rows)]
    return "".join([lines[0], "|" + "---|" * len(rows[0]) + "\n", *lines[1:]])


def psql(rows: list[list[str]]) -> str:
    lines = [" " + " | ".join(row) + "\n" for row in _padded(rows)]
    return "".join([lines[0], "-----+" * (len(rows[0]) - 1) + "-----\n", *lines[1:], f"({len(rows) - 1} rows)\n"])


def mysql(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |\n" for row in _padded(rows)]
    rule = "+" + "------+" * len(rows[0]) + "\n"
    return "".join([rule, lines[0], rule, *lines[1:], rule])


def boxed(rows: list[list[str]]) -> str:
    lines = ["│ " + " │ ".join(row) + " │\n" for row in _padded(rows)]
    return "".join(["┌────┬────┐\n", lines[0], "├────┼────┤\n", *lines[1:], "└────┴────┘\n"])


def aws(rows: list[list[str]]) -> str:
    lines = ["||  " + " |  ".join(row) + " ||\n" for row in _padded(rows)]
    rule = "|+" + "-----+" * len(rows[0]) + "|\n"
    return "".join(["--------\n|  List  |\n", rule, lines[0], rule, *lines[1:], rule])


def blanks(rows: list[list[str]]) -> str:
    return "".join("   ".join(row).rstrip() + "\n" for row in _padded(rows))


FORMS = [comma, quoted, semicolons, tabs, markdown, psql, mysql, boxed, aws, blanks]


def table(draw: random.Random, made: object, *, rows: int = 4) -> tuple[list[list[str]], list[str]]:
    """Rows with a secret column at any place among others, and its values."""
    assert callable(made)
    values = [made(draw) for _ in range(rows)]
    header = ["name", "id"][: draw.randint(1, 2)]
    at = draw.randint(0, len(header))
    header.insert(at, draw.choice(HEADERS[made]))  # type: ignore[index]
    body = []
    for value in values:
        row = [word(draw) for _ in header[1:]]
        row.insert(at, value)
        body.append(row)
    return [header, *body], values


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("made", HEADERS)
@pytest.mark.parametrize("many", [5, pytest.param(25, marks=pytest.mark.torture)])
def test_the_values_below_a_telling_header_are_marked(
    redactor: ProjectRedactor, form: object, made: object, many: int
) -> None:
    assert callable(form)
    draw = random.Random(f"{form.__name__}/{made}"[:20])
    for _ in range(many):
        rows, values = table(draw, made)
        text = f"some words\n\n{form(rows)}\nand more\n"
        redacted, _ = redactor.redact_text(text)
        assert [value for value in values if value in redacted] == [], text
        if form is not quoted:  # strings on two lines are read as one as well, for a key may go on in the next one
            assert [field for row in rows[1:] for field in row if field not in values and field not in redacted] == []
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dress", ["log", "json", "value", "quoted mail"])
def test_a_table_is_one_in_a_log_in_json_and_in_mail(redactor: ProjectRedactor, form: object, dress: str) -> None:
    assert callable(form)
    draw = random.Random(dress)
    rows, values = table(draw, password)
    text = form(rows)
    if dress == "value":
        redacted = str(redactor.redact_value({"output": text}).value)
    elif dress == "json":
        redacted, _ = redactor.redact_text(json.dumps({"output": text}, ensure_ascii=False))
    else:
        before = "2026-11-02T10:00:01Z INFO [main] " if dress == "log" else "> "
        redacted, _ = redactor.redact_text("".join(before + line for line in text.splitlines(keepends=True)))
    assert [value for value in values if value in redacted] == []


@pytest.mark.parametrize("many", [2_000, *(pytest.param(many, marks=pytest.mark.torture) for many in (12_000, 60_000))])
def test_a_file_longer_than_what_is_read_at_once_is_redacted_to_its_last_row(
    redactor: ProjectRedactor, tmp_path: Path, many: int
) -> None:
    draw = random.Random(5)
    values = [password(draw) for _ in range(many)]
    source = tmp_path / "users.csv"
    role = "reader" + " of papers" * {2_000: 60, 12_000: 8, 60_000: 0}[many]  # as long with fewer rows
    source.write_text("name,password,role\n" + "".join(f"{word(draw)},{value},{role}\n" for value in values))
    assert source.stat().st_size > 1_200_000
    target = redact_file(redactor, source, tmp_path / "clean.csv").path
    left = target.read_text().splitlines()
    assert len(left) == len(values) + 1
    assert not {line.split(",")[1] for line in left} & set(values)
    assert audit(redactor, target) == []
    assert sum(leak.finds for leak in audit(redactor, source)) == len(values)
    shortened, _ = redactor.redact_text(source.read_text())
    assert [value for value in values[:100] + values[-1000:] if value in shortened] == []


@pytest.mark.parametrize(
    "size", [200, 8191, *(pytest.param(size, marks=pytest.mark.torture) for size in (999, 4096, 70_000))]
)
def test_a_stream_knows_the_header_that_passed_long_ago(redactor: ProjectRedactor, size: int) -> None:
    draw = random.Random(size)
    redactor.prepare()  # the gate is open
    stream = StreamRedactor(redactor)
    values = [password(draw) for _ in range(1500)]
    text = "id\tlogin\tpassword\n" + "".join(f"{at}\t{word(draw)}\t{value}\n" for at, value in enumerate(values))
    redacted = "".join([*(stream.feed(text[at : at + size]) for at in range(0, len(text), size)), stream.close()])
    assert [value for value in values if value in redacted] == []


@pytest.mark.parametrize(
    "text",
    [
        "id\ttoken\tlemma\tpos\n1\tDon't\tdo\tAUX\n2\tCOVID-19\tcovid\tNOUN\n3\t3,500\t3,500\tNUM\n4\tiPhone12s\ti\tN\n",
        "token,count\nthe,10\nf16a2b,3\nutf-8,5\nx86_64-linux-gnu,1\n",
        "key,primary_key,value\n1,3,a1b2c3d4e5\n2,4,b5c6d7\n",
        "NAME                SECRETS   AGE\ndefault-a1b2c3d4    1         5d\nbuilder-x9k2m4      2         10h\n",
        "NAME        READY   SECRET                      AGE\nweb-tls     True    web-tls-7f8b9c6d-x2k4z      20d\n",
        "suite,pass,fail\nunit-a1,120,3\nweb-b2,95.5%,1\ne2e,12/14,2\n",
        "| option | password | note |\n|---|---|---|\n| a | required | x |\n| b | optional | y |\n| c | n/a | z |\n",
        "player;pass;pw\nBrown;24-31;1.5x\nGreen;n/a;-\n",
        "food,salt,pepper\nsoup,1.5g,0.2g\nstew,2tsp,1tsp\n",
        "from app import user, password\nfrom app2 import name2, value2x\n",
        "def login(user, password, token):\n    return check1(user1, pass2word, tok3en)\n",
        '    "http_access", "cache_token", "ftp_password",\n    "half_closed_b1", "hosts_file2", "client_db",\n',
        "#define OBJ_challengePassword    challengePassword\n#define OBJ_userX509v3           OBJ_X509,35L\n",
    ],
)
def test_tables_without_secrets_and_code_stay(redactor: ProjectRedactor, text: str) -> None:
    assert redactor.redact_text(text) == (text, {})


def test_a_table_ends_where_its_lines_do(redactor: ProjectRedactor) -> None:
    value = password(random.Random(8))
    for between in ("\n", "one line\nanother\nand more\nand so on\n"):
        text = f"user,password\nbob,none\n{between}ann,{value}\n"
        assert redactor.redact_text(text) == (text, {})
    text, _ = redactor.redact_text(f"user,password\nbob,none\na line, that is, none\nann,{value}\n")
    assert value not in text


def _inserts(rows: list[list[str]], between: str) -> str:
    values = between.join("(" + ", ".join(f"'{field}'" for field in row) + ")" for row in rows[1:])
    return f"INSERT INTO users ({', '.join(rows[0])}) VALUES {values};\n"


def one_line(rows: list[list[str]]) -> str:
    return _inserts(rows, ", ")


def lines(rows: list[list[str]]) -> str:
    return _inserts(rows, ",\n  ")


def copied(rows: list[list[str]]) -> str:
    return f"COPY public.users ({', '.join(rows[0])}) FROM stdin;\n" + tabs(rows[1:]) + "\\.\n"


def markup(rows: list[list[str]]) -> str:
    head = "".join(f"<th>{field}</th>" for field in rows[0])
    body = "".join("<tr>" + "".join(f'<td class="c">{field}</td>' for field in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"


def indented_markup(rows: list[list[str]]) -> str:
    return markup(rows).replace("<t", "\n  <t").replace("</tr>", "\n  </tr>")


@pytest.mark.parametrize("form", [one_line, lines, copied, markup, indented_markup])
@pytest.mark.parametrize("made", HEADERS)
@pytest.mark.parametrize("before", ["", "2026-11-02T10:00:01Z db: ", "> "])
def test_rows_of_a_database_and_of_a_page_are_read_by_their_header(
    redactor: ProjectRedactor, form: object, made: object, before: str
) -> None:
    assert callable(form)
    draw = random.Random(f"{form.__name__}/{before}")
    for _ in range(10):
        rows, values = table(draw, made)
        rows[0] = [name.replace(" ", "_") for name in rows[0]]
        text = "".join(before + line for line in form(rows).splitlines(keepends=True))
        redacted, _ = redactor.redact_text(text)
        assert [value for value in values if value in redacted] == [], text
        assert [field for row in rows[1:] for field in row if field not in values and field not in redacted] == []
        assert redactor.redact_text(redacted) == (redacted, {})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("head", [["Key", "Value"], ["name", "type", "value"], ["Variable", "Value"]])
def test_each_row_of_names_and_values_tells_by_its_name(
    redactor: ProjectRedactor, form: object, head: list[str]
) -> None:
    assert callable(form)
    draw = random.Random(form.__name__)
    for _ in range(10):
        value, other, middle = password(draw), key(draw), [word(draw)] * (len(head) - 2)
        rows = [head, ["region", *middle, word(draw)], ["DB_PASSWORD", *middle, value], ["build", *middle, other]]
        redacted, _ = redactor.redact_text(f"some words\n\n{form(rows)}\nand more\n")
        assert value not in redacted
        assert form is quoted or other in redacted


@pytest.mark.parametrize(
    "form",
    [
        '{"passwords":["@@","@@"],"count":2}',
        "passwords = ['@@', '@@']",
        '"passwords": [\n    "@@",\n    "@@"\n],',
        "passwords:\n  - @@\n  - '@@'\nusers: 2",
        "log: db_passwords:\nlog:   - @@\nlog:   - @@  # old\n",
        'String[] passwords = {"@@", "@@"};',
    ],
)
@pytest.mark.parametrize("made", [password, phrase])
def test_a_list_under_a_plural_is_found_to_its_end(redactor: ProjectRedactor, form: str, made: object) -> None:
    assert callable(made)
    draw = random.Random(form)
    for _ in range(20):
        values, text = [made(draw), made(draw)], form
        for value in values:
            text = text.replace("@@", value, 1)
        redacted, _ = redactor.redact_text(text)
        assert [value for value in values if value in redacted] == [], text


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO users (name, password_hint) VALUES ('ann', 'a1b2c3d4e5');\n",
        "INSERT INTO logs (token_count, text) VALUES (12, 'a1b2c3d4e5');\n",
        "<table><tr><th>User</th><th>Plan</th></tr><tr><td>ann</td><td>a1b2c3d4e5</td></tr></table>\n",
        "Key         Value\n---         -----\nregion      eu-west-1a2b\nbuild       a1b2c3d4e5f6\n",
        'tokens: ["the", "x86_64-linux", "utf-8", "covid-19"]\n',
        "secrets:\n  - db-password-7f8b9c\n  - api-v2-tls-4x\n",
        "passwords: [required, optional]\npasswords:\n  - see above\n",
        "for name, value in settings:\n    password, a1b2c3 = 1, 2\n",
    ],
)
def test_rows_and_lists_of_other_things_stay(redactor: ProjectRedactor, text: str) -> None:
    assert redactor.redact_text(text) == (text, {})


@pytest.mark.parametrize("line", ['password  = "   ', 'x: "   ', "password  (  ", 'token  name = "  \t'])
def test_a_line_of_which_blanks_alone_are_left_is_no_header(redactor: ProjectRedactor, line: str) -> None:
    text = f"first\n{line}\nsecond  third\n"
    assert redactor.redact_text(text) == (text, {})
