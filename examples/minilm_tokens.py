"""Text to tokens as BERT's uncased models have them: words and punctuation apart, then the longest pieces known."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

LONGEST_WORD = 100
"""Words of more characters become one `[UNK]`."""
CJK = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
"""Code points of ideographs, each of which is a word."""

Ints = npt.NDArray[np.int32]


class Tokeniser:
    """WordPiece over a vocabulary: a token's number is its place there. `##` begins a piece that continues a word."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.numbers = {token: number for number, token in enumerate(vocabulary)}
        self.first, self.last, self.unknown, self.padding = (
            self.numbers[name] for name in ("[CLS]", "[SEP]", "[UNK]", "[PAD]")
        )

    @staticmethod
    def read(path: Path) -> Tokeniser:
        """From a file with a token on each line."""
        return Tokeniser(path.read_text(encoding="utf-8").splitlines())

    def encode(self, text: str, longest: int = 512) -> list[int]:
        """The numbers of a text's tokens, between `[CLS]` and `[SEP]`; `longest` of them at most."""
        pieces = [number for word in words(text) for number in self.pieces(word)]
        return [self.first, *pieces[: longest - 2], self.last]

    def pieces(self, word: str) -> list[int]:
        """The longest known piece at each place of a word; `[UNK]` for a word that is not made of known pieces."""
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.numbers), None)
            if end is None or len(word) > LONGEST_WORD:
                return [self.unknown]
            found.append(self.numbers[prefix + word[start:end]])
            start = end
        return found

    def batch(self, texts: Sequence[str], length: int | None = None) -> tuple[Ints, Ints]:
        """Tokens[B, L] and mask[B, L], 0 where a text has ended; L is `length`, or that of the longest text."""
        rows = [self.encode(text, length or 512) for text in texts]
        length = length or max(map(len, rows))
        tokens = np.full((len(rows), length), self.padding, np.int32)
        for row, numbers in zip(tokens, rows):
            row[: len(numbers)] = numbers
        lengths = np.array([len(numbers) for numbers in rows])
        return tokens, (np.arange(length) < lengths[:, None]).astype(np.int32)


def words(text: str) -> list[str]:
    """Words in lower case without accents; each punctuation mark and each ideograph is a word.

    >>> words("Crème brûlée, s'il-te-plaît!")
    ['creme', 'brulee', ',', 's', "'", 'il', '-', 'te', '-', 'plait', '!']
    """
    cleaned = "".join(_spaced(character) for character in text)
    # accents come apart from their letters (NFD), and are left out
    letters = (c for c in unicodedata.normalize("NFD", cleaned) if unicodedata.category(c) != "Mn")
    lower = "".join(c.lower() for c in letters)  # each alone: a sigma does not mind where it stands
    return [word for run in lower.split() for word in _apart(run)]


def _spaced(character: str) -> str:
    """A character as it counts: nothing for control characters, a space for white space, ideographs between spaces."""
    code = ord(character)
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if code in (0, 0xFFFD) or unicodedata.category(character) in ("Cc", "Cf"):
        return ""
    return f" {character} " if any(low <= code <= high for low, high in CJK) else character


def _apart(run: str) -> Iterator[str]:
    """A run without spaces, cut around each punctuation mark."""
    word = ""
    for character in run:
        if _is_punctuation(character):
            if word:
                yield word
            yield character
            word = ""
        else:
            word += character
    if word:
        yield word


def _is_punctuation(character: str) -> bool:
    """Of Unicode's categories of punctuation, or an ASCII sign: `$`, `+`, `<`, `^`, a backtick, `|`, `~` too."""
    ascii_sign = "!" <= character <= "~" and not character.isalnum()
    return ascii_sign or unicodedata.category(character).startswith("P")
