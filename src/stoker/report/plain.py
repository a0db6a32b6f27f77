"""Texts from scripts, files and hosts made safe to show: they may not steer a terminal."""

from __future__ import annotations

import unicodedata

# Cc: control codes, among them the escape that starts a terminal sequence. Cs: lone surrogates,
# which no encoding can write. Bidirectional overrides make a line read as what it is not.
_HIDDEN_CATEGORIES = ("Cc", "Cs")
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_TAB = "    "
# What reports write beyond ASCII, for terminals that can't show it.
_ASCII = {
    "−": "-",
    "–": "-",
    "·": "-",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "→": "->",
    "µ": "u",
    "×": "x",
    "“": '"',
    "”": '"',
    "’": "'",
    "…": "...",
    "∞": "inf",
}


def line(text: str) -> str:
    """The text on one line."""
    return " ".join(_visible(part) for part in text.split())


def block(text: str) -> str:
    """The text with its own line breaks and indentation, as a code snippet needs them."""
    rows = text.strip("\n").expandtabs(len(_TAB)).splitlines()
    return "\n".join(_visible(row).rstrip() for row in rows)


def _visible(text: str) -> str:
    """Characters that would act instead of being seen, shown as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    acts = unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _BIDIRECTIONAL
    return ascii(character)[1:-1] if acts else character


def in_ascii(text: str) -> str:
    """The text for a terminal that can write ASCII only: symbols spelled, the rest as "?"."""
    for symbol, spelled in _ASCII.items():
        text = text.replace(symbol, spelled)
    return text.encode("ascii", "replace").decode()
