"""A secret of a published shape is found whatever its random part holds: no stop word, no allow list excuses it."""

from __future__ import annotations

import itertools
import random
import string
import tomllib
from functools import cache

import pytest

from tests.tracer.redaction import generator
from tests.tracer.redaction.positives import all_rules, drawn
from tracer.redaction.engine import ProjectRedactor
from tracer.redaction.rule_pack import GITLEAKS
from tracer.redaction.rule_set import CHECKS, Rule, RuleSet

RULES = RuleSet(all_rules())
PROVIDERS = tomllib.loads(GITLEAKS.with_name("shapes.toml").read_text(encoding="utf-8"))["shapes"]
SHAPES = [f"{provider}-{kind}" for provider, kinds in PROVIDERS.items() for kind in kinds]
# What ordinary words, and gitleaks' own lists, take for no secret.
EXCUSES = ("client", "access", "public", "token", "admin", "Number", "Author", "module", "000", "aaa", "test", "key")


@cache  # looked for where a test asks: each worker collects this module
def shaped() -> list[Rule]:
    """Rules whose secret begins with what they go by: ours, and the vendored ones of that kind."""
    kinds = []
    for rule in RULES.rules:
        text = drawn(rule, random.Random(rule.id))
        found = next(iter(rule.finds(f"\n{text}\n".encode())), None)
        if rule.id in SHAPES or (
            found and rule.check is None and any(found.secret.lower().startswith(word) for word in rule.keywords)
        ):
            kinds.append(rule)
    return kinds


def named(rule: Rule, text: str) -> str:
    """`text` behind a keyword of the rule where it holds none: some shapes are none without their provider's name."""
    known = any(word in text.lower().encode() for word in rule.keywords)
    return text if known else f"{rule.keywords[0].decode()} {text}"


def test_the_shapes_of_well_over_a_hundred_providers_have_rules() -> None:
    assert len(PROVIDERS) >= 120
    assert {rule.id for rule in shaped()} >= set(SHAPES)
    assert len(shaped()) >= 350


@pytest.mark.timeout(900)
@pytest.mark.parametrize("many", [5, pytest.param(2000, marks=pytest.mark.torture)])
def test_random_values_of_a_shape_are_all_found(many: int) -> None:
    missed = []
    for rule in shaped():
        draw = random.Random(f"{rule.id}/{many}")
        for _ in range(many):
            text = named(rule, drawn(rule, draw))
            data = f"\ntoken={text}\n".encode()
            # Its own rule is one of the set, and runs there since its keyword is in the text: asked first, it is cheap.
            if next(rule.finds(data), None) is None and next(RULES.finds(data), None) is None:
                missed.append((rule.id, text))
    assert missed == []


def test_each_kind_that_providers_show_is_found_as_they_show_it(redactor: ProjectRedactor) -> None:
    draw, missed = random.Random(23), []
    for kind in generator.KINDS:
        text, secret = generator.made(kind, draw)
        if generator.leaks(redactor.redact_text(f"\n{text}\n")[0], secret):
            missed.append((kind, text))
    assert missed == []


def test_no_digest_is_a_secret_whatever_it_begins_with() -> None:
    """A set of 20,000 blobs held an id that began as a provider's key does, and could not be exported."""
    draw = random.Random(3)
    begins = {
        word.decode() for rule in RULES.rules for word in rule.keywords if set(word.decode()) <= set("0123456789abcdef")
    }
    for begin in sorted(begins):
        for size in (32, 40, 64, 96, 128):
            digest = (begin + "".join(draw.choices("0123456789abcdef", k=size)))[:size]
            for text in (f'"sha256:{digest}"', digest, f"/blobs/{digest}.json"):
                assert next(RULES.finds(f"\n{text}\n".encode()), None) is None, text


@pytest.mark.parametrize("shapes", [SHAPES[::20], pytest.param(SHAPES, marks=pytest.mark.torture)], ids=["some", "all"])
def test_words_in_the_random_part_excuse_nothing(shapes: list[str]) -> None:
    rules = {rule.id: rule for rule in RULES.rules}
    for name, word in itertools.product(shapes, EXCUSES):
        rule = rules[name]
        one = drawn(rule, random.Random(word))
        at = len(one) - len(word) - 2
        for wordy in (one, one[:at] + word + one[at + len(word) :]):
            if rule._pattern.search(f"\n{wordy}\n".encode()) is not None:
                text = named(rule, f'{{"access_token": "{wordy}"}}').encode()
                assert any(find.rule == name for find in RULES.finds(text)), (name, wordy)


def test_a_drawn_value_without_a_digit_is_found_beside_a_name_and_a_name_is_none() -> None:
    draw = random.Random(7)
    for _ in range(1000):  # 15 of them have no digit
        value = "".join(draw.choices(string.ascii_letters + string.digits, k=24))
        assert next(RULES.finds(f'{{"access_token": "{value}"}}'.encode()), None) is not None, value
    for name in (
        "accessTokenFromHeaderOrQuery",
        "getIdOfMyNewObject",
        "ENVIRONMENT_VARIABLE_NAME",
        "correct-horse-battery",
    ):
        assert not CHECKS["strong"](name.encode()), name


@pytest.mark.parametrize(
    ("text", "secret"),
    [  # of base64 one value in 64 begins as a path does; a variable of a password may hold a phrase
        ("API_SECRET=/<64>", "<64>"),
        ("AccountKey=/+<84>==", "<84>"),
        ('DB_PASSWORD="first second third 7"', "second third"),
        ("django-insecure-XXXX<46>", "<46>"),
    ],
)
def test_no_sign_in_a_value_excuses_it(text: str, secret: str) -> None:
    draw = random.Random(text)
    for _ in range(20):
        many = {
            f"<{size}>": "".join(draw.choices(string.ascii_letters + string.digits, k=size)) for size in (46, 64, 84)
        }
        told, hidden = text, secret
        for sign, value in many.items():
            told, hidden = told.replace(sign, value), hidden.replace(sign, value)
        data = f"\n{told}\n".encode()
        assert any(hidden.encode() in find.secret for find in RULES.finds(data)), told


@pytest.mark.parametrize(
    "path", ["/run/secrets/tokenForApp1", "./node_modules/Bar2Baz/index1", "/home/dev/Projects2024/key1"]
)
def test_a_path_beside_a_telling_name_is_none(path: str) -> None:
    assert list(RULES.finds(f"\nsecret: {path}\n".encode())) == []


@pytest.mark.parametrize(
    "form", ['DB_PASSWORD="@"', "  password: '@'", '{"password": "@"}', "ALTER ROLE app PASSWORD '@';"]
)
def test_passwords_of_random_signs_are_found_behind_their_names(form: str) -> None:
    """A few in a hundred hold what looks like a template, a path or code, and are left."""
    draw, missed = random.Random(form), []
    signs = string.ascii_letters + string.digits + "!#$%()*+,-./:;=?@[]^_{|}~&"
    for _ in range(300):
        password = "7a" + "".join(draw.choices(signs, k=draw.randint(10, 22)))
        first = draw.randrange(3)
        password = password[first:] + password[:first]
        if next(RULES.finds(f"\n{form.replace('@', password)}\n".encode()), None) is None:
            missed.append(password)
    assert len(missed) <= 9, missed
