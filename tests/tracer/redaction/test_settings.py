"""Passwords where the manuals of servers and clients put them: a directive, an argument, a part of a key."""

from __future__ import annotations

import random
import string

import pytest

from tracer.redaction.engine import ProjectRedactor

SIGNS = {"<word>": string.ascii_lowercase, "<drawn>": string.ascii_letters + string.digits, "<hex>": "0123456789abcdef"}
SIGNS["<b64>"] = SIGNS["<drawn>"] + "+/"
SIZES = {"<word>": 12, "<drawn>": 16, "<hex>": 32, "<b64>": 88}


@pytest.mark.parametrize(
    "form",
    [
        "# Secrets for authentication using CHAP\nsvc  *  <word>  *",
        '# /etc/ppp/chap-secrets\n"svc" l2tpd "<drawn>" 10.0.0.7',
        "IMAPAccount work\nUser svc\nPass <word>",
        "auth_type PASS\n  auth_pass <word>",
        "cache_peer proxy parent 3128 0 no-query login=svc:<word>",
        "SQLConnectInfo shop@db svc <word>",
        "user svc insecure-password <word>",
        "stats auth svc:<word>",
        "IPSec secret <word>",
        "static-auth-secret=<word>",
        "auth_server_shared_secret=<word>",
        "# /etc/davfs2/secrets\nhttps://files.example/data svc <word>",
        "eap-1 {\n  id = svc\n  secret = <word>\n}",
        "type=friend\nhost=dynamic\nsecret=<word>",
        "<auth-user-pass>\nsvc\n<drawn>\n</auth-user-pass>",
        "'crypt' => [\n  'key' => '<hex>'\n],",
        "<RSAKeyValue><Modulus>AQAB</Modulus><P><b64></P></RSAKeyValue>",
        "Prime1: <b64>",
        "echo '<drawn>' | openconnect --passwd-on-stdin -u svc gw",
        "CONAN_PASSWORD_INTERNAL=<word>",
        '{"CONAN_PASSWORD_INTERNAL": "<word>"}',
        'BUNDLE_GEMS__CONTRIBSYS__COM": "svc:<drawn>"',
        "-----BEGIN OpenVPN tls-crypt-v2 client key-----\n<b64>\n-----END OpenVPN tls-crypt-v2 client key-----",
        "set protocols bgp group g authentication-key <word>",
        "racadm set iDRAC.Users.2.Password <drawn>",
    ],
)
def test_what_a_manual_calls_the_password_is_found(redactor: ProjectRedactor, form: str) -> None:
    draw = random.Random(form)
    for _ in range(10):
        text, made = form, ""
        for name, signs in SIGNS.items():
            if name in form:
                made = "".join(draw.choices(signs, k=SIZES[name]))
                text = text.replace(name, made)
        assert made not in redactor.redact_text(f"\n{text}\n")[0], text


@pytest.mark.parametrize(
    "text",
    [
        'user: "1000:1000"',
        "user = www-data:www-data",
        " /etc/dpkg/dpkg.cfg.d/pkg-config newconffile remove-on-upgrade\nDescription: davfs2",
        "chapter 2: const xmlChar * name, const xmlChar * uri",
        'Provides a way to load "plugins" as provided by the user.\nbasicAuth',
        "## [v1.1.0](https://github.com/x/davinci/compare/v1.0.3...v1.1.0) - 2024-12-12",
        "option key 'value'",
        "secret = config.get(name)",
        "SECRET_KEY = 'changeme'",
        "rabbitmqctl add_user tester $PASSWORD",
        "check_http -H web -p 8443 -S",
        "live_view_components and app_settings_of_the_user",
    ],
)
def test_ordinary_lines_beside_them_stay(redactor: ProjectRedactor, text: str) -> None:
    assert redactor.redact_text(f"\n{text}\n")[0] == f"\n{text}\n"
