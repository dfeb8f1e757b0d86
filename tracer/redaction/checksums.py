"""Digits that a value carries to be checked by: where they are right it was made as one, and is no word by chance."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Final

_BASE58: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PRIVATE_KEYS: Final = frozenset({0x80, 0xEF})  # of Bitcoin's main and test networks
_KEY_SIZES: Final = frozenset({37, 38})  # version, key, perhaps a sign that the public one is compressed, check


def luhn(digits: bytes) -> bool:
    """Whether the decimal `digits` carry a right check digit, as payment cards do."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = (digit - 48) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def base58(value: bytes) -> bool:
    """Whether `value` is a private key as wallets import it (WIF), with the right check."""
    number = 0
    for sign in value:
        number = number * 58 + _BASE58.find(sign)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if len(data) not in _KEY_SIZES or data[0] not in _PRIVATE_KEYS:
        return False
    return hashlib.sha256(hashlib.sha256(data[:-4]).digest()).digest()[:4] == data[-4:]


def base32(value: bytes) -> bool:
    """Whether `value` is base32 that ends with the CRC of what it holds, as Stellar's keys and NATS' seeds do."""
    try:
        data = base64.b32decode(value + b"=" * (-len(value) % 8))
    except binascii.Error:
        return False
    return binascii.crc_hqx(data[:-2], 0) == int.from_bytes(data[-2:], "little")


CHECKSUMS: Final[dict[str, Callable[[bytes], bool]]] = {"base58": base58, "base32": base32}
