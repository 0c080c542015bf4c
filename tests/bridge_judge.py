"""The bridge policy in plain Python: slow, short, and the judge of the native engine.

Every rule is written out as it is stated, with sets and loops over all pairs. All that is shared with the engine is
the logarithm (itself judged by `math.log`), so that the last bit of it decides no tie.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isinglass._core import natural_logarithm as log
from isinglass.measure.text import (
    _unicode_word,
    ascii_words,
    is_ascii_content_word,
    is_content_word,
    sentences,
    words,
)


@dataclass
class Weights:
    match: float = 2
    fresh: float = 4
    named: float = 6
    names: float = 2
    title: float = 2
    first: float = 1
    length: float = 1
    link: float = 2
    linked: float = 1
    cosine: float = 4
    redundancy: float = 0.8


@dataclass
class Sentence:
    document: int
    position: int  # among the sentences of its document, dropped ones counted
    text: str
    terms: set[str]
    tokens: int
    names: list[str]


def stems(text: str, ascii_rule: bool) -> list[str]:
    """First five letters of each content word, in order."""
    cut, content = (ascii_words, is_ascii_content_word) if ascii_rule else (words, is_content_word)
    return [word[:5] for word in cut(text) if content(word)]


def raw_words(text: str) -> list[str]:
    """Words by the Unicode rule before case folding."""
    # This mark alone folds to a letter.
    return _unicode_word().findall(unicodedata.normalize("NFC", text).replace("\u0345", "\u03b9"))


def is_capital(word: str) -> bool:
    first = word[0]
    return first.isdigit() or (first != first.casefold() and not first.islower())


def names_in(text: str, asked: set[str]) -> list[str]:
    """First five letters of each content word with a capital or digit in front that the question lacks, each once."""
    folded = [word.casefold() for word in raw_words(text) if is_capital(word)]
    return list(dict.fromkeys(word[:5] for word in folded if is_content_word(word) and word[:5] not in asked))


def beginning(text: str) -> str:
    """The capitalised words with which a text begins."""
    return " ".join(itertools.takewhile(is_capital, raw_words(text)))


def positive_cosine(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
    return max(0.0, math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths) if lengths else 0.0


class Judge:
    def __init__(
        self,
        question: str,
        documents: Sequence[tuple[str, str]],
        ascii_rule: bool = False,
        weights: Weights | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
    ) -> None:
        self.w = weights or Weights()
        count: Callable[[str], list[str]] = ascii_words if ascii_rule else words
        asked = set(stems(question, ascii_rule))
        self.sentences: list[Sentence] = []
        seen = set()
        for d, (_, text) in enumerate(documents):
            for position, (a, b) in enumerate(sentences(text)):
                piece = text[a:b]
                normal = piece if ascii_rule else unicodedata.normalize("NFC", piece)
                if (key := " ".join(normal.split()).casefold()) in seen or not count(piece):
                    continue
                seen.add(key)
                names = [] if ascii_rule else names_in(piece, asked)
                terms = set(stems(piece, ascii_rule))
                self.sentences.append(Sentence(d, position, piece, terms, len(count(piece)), names))
        n = len(self.sentences)
        self.q = [t for t in dict.fromkeys(stems(question, ascii_rule)) if any(t in s.terms for s in self.sentences)]
        self.idf = {t: log(1 + n / sum(t in s.terms for s in self.sentences)) for t in self.q}
        self.total = self.weight_of(set(self.q))
        self.titles = [set(stems(title, ascii_rule)) for title, _ in documents]
        self.names = [set(stems(re.sub(r"\([^()]*\)", " ", title), ascii_rule)) for title, _ in documents]
        for d, (title, text) in enumerate(documents):
            if not (title or ascii_rule) and (spans := sentences(text)):
                self.names[d] = set(stems(beginning(text[slice(*spans[0])]), ascii_rule))
        self.of_document = [set(title) for title in self.titles]
        for s in self.sentences:
            self.of_document[s.document] |= s.terms
        nameable = [bool(name) and not name <= asked for name in self.names]
        self.named_by = [0.0] * len(documents)
        self.names_one = [0.0] * n
        self.asked = [bool(name) and name <= asked for name in self.names]
        for i, s in enumerate(self.sentences):
            for e, name in enumerate(self.names):
                if e != s.document and nameable[e] and name <= s.terms:
                    self.named_by[e] = max(self.named_by[e], self.m(s.terms | self.titles[s.document]))
                    self.names_one[i] = max(self.names_one[i], self.m(self.of_document[e]))

        self.vectors: list[Sequence[float]] = []
        self.cosine = [0.0] * n
        if embed:
            heads = [f"{title}. " if title else "" for title, _ in documents]
            self.vectors = [embed(heads[s.document] + s.text) for s in self.sentences]
            self.cosine = [positive_cosine(embed(question), vector) for vector in self.vectors]

        self.link, self.linked = [0.0] * n, [0.0] * len(documents)
        if not ascii_rule:
            self.link_names([names_in(title, asked) for title, _ in documents])

    def link_names(self, of_title: list[list[str]]) -> None:
        n = len(self.sentences)
        names = [list(dict.fromkeys(s.names + of_title[s.document])) for s in self.sentences]
        rarity = {t: log(1 + n / sum(t in own for own in names)) for own in names for t in own}
        match = [self.m(s.terms | self.titles[s.document]) for s in self.sentences]
        speakers = sorted((i for i in range(n) if match[i] > 0), key=lambda i: (-match[i], i))[:10]
        for j in speakers:
            for i, s in enumerate(self.sentences):
                if s.document == self.sentences[j].document:
                    continue
                shared = 0.0
                for t in names[i]:
                    shared += rarity[t] if t in self.sentences[j].names else 0.0
                self.link[i] = max(self.link[i], match[j] * min(1.0, shared / 6))
        for i, s in enumerate(self.sentences):
            self.linked[s.document] = max(self.linked[s.document], self.link[i])

    def m(self, terms: set[str]) -> float:
        """The idf share of the question that `terms` match."""
        return self.weight_of(terms) / self.total if self.total else 0.0

    def weight_of(self, terms: set[str]) -> float:
        """Term by term in the question's order: `sum` of a newer Python compensates for rounding."""
        total = 0.0
        for t in self.q:
            if t in terms:
                total += self.idf[t]
        return total

    def fixed(self, i: int) -> float:
        s, w = self.sentences[i], self.w
        return (
            w.match * self.m(s.terms)
            + w.named * self.named_by[s.document]
            + w.names * self.names_one[i]
            + w.title * self.asked[s.document]
            + w.first * (s.position == 0)
            + w.link * self.link[i]
            + w.linked * self.linked[s.document]
            + w.cosine * self.cosine[i]
        )

    def redundancy(self, i: int, chosen: Sequence[int]) -> float:
        """Largest cosine with a chosen sentence."""
        if not self.vectors:
            return 0.0
        return max((positive_cosine(self.vectors[i], self.vectors[k]) for k in chosen), default=0.0)

    def pick(self, budget: int, title_costs: Sequence[int] | None = None) -> list[int]:
        """Chosen sentences, in order of choice."""
        chosen: list[int] = []
        covered: set[str] = set()
        opened: set[int] = set()
        left = budget

        def cost(i: int) -> int:
            s = self.sentences[i]
            return s.tokens + (title_costs[s.document] if title_costs and s.document not in opened else 0)

        while fitting := [i for i in range(len(self.sentences)) if i not in chosen and cost(i) <= left]:
            key = {
                i: self.fixed(i)
                + self.w.fresh * self.m(self.sentences[i].terms - covered)
                - self.w.length * log(self.sentences[i].tokens)
                - self.w.redundancy * self.redundancy(i, chosen)
                for i in fitting
            }
            best = max(fitting, key=lambda i: (key[i], -i))
            left -= cost(best)
            chosen.append(best)
            covered |= self.sentences[best].terms
            opened.add(self.sentences[best].document)
        return chosen
