"""Rules that were meant to better the bridge policy, on the public questions: a table of each against bridge.

    ISINGLASS_DATA=... python -m bench.bridge_candidates [--half tune] [--settings hotpotqa-own-all ...] [--rules ...]
    ISINGLASS_DATA=... python -m bench.bridge_candidates --files hotpotqa_fullwiki covidqa [--half test]

With `--files` the settings are all paragraphs of each question of those files.

Every rule has the key of bridge with one thing changed, from the arrays of the native engine, and is a prototype in
NumPy. An answer counts where it stands in one chosen sentence; for bridge that is answer in context to the digit in
every setting, and a column of the table says so. `fitted` is a conditional logistic regression of "this sentence holds
the answer" on all parts and cues together, fitted on the tune half of each data set's own paragraphs with equal weight
(in five folds where the tune half itself is asked about); the others have weights that were chosen by hand there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from isinglass.diagnosis import answer_in_context
from isinglass.experiments.corpus import Corpus
from isinglass.experiments.datasets import read_questions
from isinglass.measure import Passage
from isinglass.measure.bridge import Bridge, BridgeWeights, prepare_bridge
from isinglass.measure.text import is_content_word, words
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.bridge_quality import SETTINGS, interval, name
from tests.bridge_questions import Case, Setting, cases, half

BUDGETS = (96, 128, 160, 224)
AT = BUDGETS.index(160)
WEIGHTS = BridgeWeights()
ASKS_FOR_A_NUMBER = {"when", "year", "years", "many"}
PRONOUNS = {"he", "she", "it", "they", "his", "her", "its", "their", "this", "these", "him"}
# Words of one relation in English, each group read as its first word.
RELATIONS = (
    "born birth birthplace birthdate birthday",
    "died die dies death dead deceased",
    "buried burial bury interred grave",
    "spouse married marry wife husband wed marriage",
    "father son daughter child children mother parents parent",
    "wrote written write writes author writer",
    "located situated location",
    "founded founder established formed created creator",
    "educated graduate graduated education school university college studied alumnus",
)
RELATION = {word: group.split()[0] for group in RELATIONS for word in group.split()}

Array = NDArray[np.float64]


def stems(text: str) -> list[str]:
    return [word[:5] for word in words(text)]


def content(found: Sequence[str]) -> list[str]:
    return [word[:5] for word in found if is_content_word(word)]


def follow(sequence: Sequence[str], part: Sequence[str]) -> bool:
    """Whether `part` stands in the sequence, its words side by side."""
    return f" {' '.join(part)} " in f" {' '.join(sequence)} "


@dataclass(frozen=True, eq=False)
class View:
    """A question as the engine sees it, and the words of its sentences."""

    case: Case
    bridge: Bridge

    @cached_property
    def holds(self) -> NDArray[np.bool_]:
        """Whether an answer stands in the sentence, shape (n,)."""
        answers = self.case.question.answers
        return np.array([answer_in_context(text, answers).p1 for text in self.bridge.texts], dtype=bool)

    @cached_property
    def gold(self) -> NDArray[np.bool_]:
        """Whether it is a sentence of a gold document, shape (n,)."""
        documents = set(self.case.question.gold_documents)
        return np.array([self.case.passages[p].doc in documents for p in self.bridge.passage.tolist()], dtype=bool)

    @cached_property
    def worth(self) -> Array:
        return self.bridge.core.worth(astuple(WEIGHTS))

    @cached_property
    def document(self) -> NDArray[np.int64]:
        return self.bridge.core.document

    @cached_property
    def words(self) -> list[list[str]]:
        return [words(text) for text in self.bridge.texts]

    @cached_property
    def asked(self) -> list[str]:
        return words(self.case.question.question)

    @cached_property
    def opens(self) -> Array:
        """Second sentence of a passage, shape (n,)."""
        return (self.bridge.sentence == 1).astype(float)

    @cached_property
    def number(self) -> Array:
        """A question that asks for a number or a time, a sentence with a number that the question lacks."""
        if not ASKS_FOR_A_NUMBER & set(self.asked):
            return np.zeros(len(self.bridge))
        known = set(self.asked)
        return np.array([any(w[0].isdigit() and w not in known for w in ws) for ws in self.words], dtype=float)

    def coverage(self, held: Sequence[set[str]], terms: Sequence[str]) -> tuple[Array, Array]:
        """Which sentence has which term, (n, t), and the idf share of each term, (t,)."""
        terms = [t for t in dict.fromkeys(terms) if any(t in own for own in held)]
        has = np.array([[t in own for t in terms] for own in held], dtype=float).reshape(len(held), len(terms))
        idf = np.log(1 + len(held) / has.sum(axis=0)) if terms else np.zeros(0)
        return has, idf / idf.sum() if terms else idf

    @cached_property
    def terms(self) -> tuple[Array, Array]:
        idf = self.bridge.core.idf
        return self.bridge.core.coverage.astype(float), idf / idf.sum() if idf.any() else idf

    @cached_property
    def related_terms(self) -> tuple[Array, Array]:
        """The same with the words of one relation read as one."""
        held = [set(content([RELATION.get(w, w) for w in ws])) for ws in self.words]
        return self.coverage(held, content([RELATION.get(w, w) for w in self.asked]))

    @cached_property
    def with_title(self) -> Array:
        """The idf share of the question that a sentence matches together with its title, shape (n,)."""
        terms = list(dict.fromkeys(content(self.asked)))
        has, shares = self.terms
        titles = [set(content(words(p.title or ""))) for p in self.case.passages]
        in_title = np.array([[t in own for t in terms] for own in titles], dtype=float).reshape(len(titles), len(terms))
        return np.maximum(has, in_title[self.bridge.passage]) @ shares

    @cached_property
    def side_by_side(self) -> tuple[Array, Array, Array]:
        """named, names and title of each sentence, where a name's words must stand side by side, shape (n,) each."""
        n, passages = len(self.bridge), self.case.passages
        of_document = np.zeros(len(passages))
        has, shares = self.terms
        for d in range(len(passages)):
            held = has[self.document == d].max(axis=0, initial=0)
            in_title = set(content(words(passages[d].title or "")))
            title = [t in in_title for t in dict.fromkeys(content(self.asked))]
            of_document[d] = np.maximum(held, title) @ shares
        sequences, question = [[w[:5] for w in ws] for ws in self.words], [w[:5] for w in self.asked]
        named, names, title = np.zeros(len(passages)), np.zeros(n), np.zeros(len(passages))
        for d, passage in enumerate(passages):
            plain = words(re.sub(r"\([^()]*\)", " ", passage.title or ""))
            if not content(plain):
                continue
            phrase = [word[:5] for word in plain]
            if follow(question, phrase):
                title[d] = 1
                continue
            for i in np.flatnonzero(self.document != d).tolist():
                if follow(sequences[i], phrase):
                    named[d] = max(named[d], self.with_title[i])
                    names[i] = max(names[i], of_document[d])
        return named[self.document], names, title[self.document]

    @cached_property
    def phrased(self) -> Array:
        """`worth` with names as words side by side."""
        named, names, title = self.side_by_side
        core = self.bridge.core
        w = WEIGHTS
        old = w.named * core.named[self.document] + w.names * core.names + w.title * core.in_question[self.document]
        return self.worth - old + w.named * named + w.names * names + w.title * title

    @cached_property
    def likeness(self) -> Array:
        """Idf-weighted cosine of the content words of two sentences, shape (n, n)."""
        has, idf = self.coverage([set(content(ws)) for ws in self.words], [t for ws in self.words for t in content(ws)])
        rows = has * np.sqrt(idf)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows @ rows.T

    @cached_property
    def features(self) -> Array:
        """Parts of the key and cues that were thought of, shape (n, features)."""
        core, d = self.bridge.core, self.document
        named, names, title = self.side_by_side
        tokens, place = np.log(self.bridge.tokens), self.bridge.sentence
        match, known = core.match, set(content(self.asked))
        same = np.r_[False, d[1:] == d[:-1]] if len(d) else np.zeros(0, dtype=bool)
        before = np.where(same, np.r_[0, match[:-1]], 0) if len(d) else match
        after = np.where(np.r_[same[1:], False], np.r_[match[1:], 0], 0) if len(d) else match
        capitals = [{w[:5].lower() for w in re.findall(r"\b[A-Z]\w+", text)[1:]} for text in self.bridge.texts]
        pairs = set(zip(content(self.asked), content(self.asked)[1:], strict=False))
        best = np.zeros(len(self.case.passages))
        np.maximum.at(best, d, match)
        columns = [
            match, core.named[d], core.names, core.in_question[d], core.first, core.link, core.linked[d],
            named, names, title, self.opens, self.number, self.with_title, best[d], tokens, np.log1p(place), before,
            after, [len(own - known) / 6 for own in capitals],
            [any(w[0].isdigit() for w in ws) for ws in self.words],
            [bool(ws) and ws[0] in PRONOUNS for ws in self.words],
            [len(set(zip(content(ws), content(ws)[1:], strict=False)) & pairs) for ws in self.words],
            core.first * named, self.opens * named, core.first * core.linked[d],
        ]  # fmt: skip
        return np.stack([np.asarray(column, dtype=float) for column in columns], axis=1)


@dataclass(frozen=True, eq=False)
class Rule:
    """A key: worth + fresh dQ - length ln(tokens) - redundancy; and how sentences are chosen by it."""

    worth: Array
    fresh: float = WEIGHTS.fresh
    length: float = WEIGHTS.length
    redundancy: float = 0
    terms: tuple[Array, Array] | None = None
    exact: bool = False
    pairs: bool = False


def chosen(view: View, rule: Rule, budget: int) -> list[int]:
    """Sentences, in order of choice."""
    tokens = view.bridge.tokens
    has, shares = view.terms if rule.terms is None else rule.terms
    if rule.exact:
        return knapsack(np.exp(rule.worth + rule.fresh * (has @ shares)), tokens, budget)
    members = np.arange(len(tokens))[:, np.newaxis].repeat(2, axis=1)
    worth = rule.worth
    if rule.pairs:
        of, at = view.bridge.passage, view.bridge.sentence
        first = np.flatnonzero((of[1:] == of[:-1]) & (at[1:] == at[:-1] + 1))
        members = np.concatenate([members, np.stack([first, first + 1], axis=1)])
        worth = np.r_[worth, np.logaddexp(worth[first], worth[first + 1])]
        has = np.maximum(has[members[:, 0]], has[members[:, 1]])
        tokens = np.r_[tokens, tokens[first] + tokens[first + 1]]
    fixed = worth - rule.length * np.log(tokens)
    missing, nearest = np.ones(len(shares)), np.zeros(len(tokens))
    taken = np.zeros(len(view.bridge), dtype=bool)
    order: list[int] = []
    while True:
        fits = (tokens <= budget) & ~taken[members].any(axis=1)
        if not fits.any():
            return order
        key = fixed + rule.fresh * (has @ (shares * missing)) - rule.redundancy * nearest
        best = int(np.where(fits, key, -np.inf).argmax())
        budget -= int(tokens[best])
        order.extend(dict.fromkeys(members[best].tolist()))
        taken[members[best]] = True
        missing *= 1 - has[best]
        if rule.redundancy:
            nearest = np.maximum(nearest, view.likeness[best])


def knapsack(values: Array, tokens: NDArray[np.int64], budget: int) -> list[int]:
    """The set of greatest value within the budget."""
    best = np.zeros((len(values) + 1, budget + 1))
    for i, (value, cost) in enumerate(zip(values.tolist(), tokens.tolist(), strict=True)):
        best[i + 1] = best[i]
        if cost <= budget:
            best[i + 1, cost:] = np.maximum(best[i, cost:], best[i, : budget + 1 - cost] + value)
    order, left = [], budget
    for i in range(len(values) - 1, -1, -1):
        if best[i + 1, left] != best[i, left]:
            order.append(i)
            left -= int(tokens[i])
    return order


RULES: dict[str, Callable[[View], Rule]] = {
    "bridge": lambda view: Rule(view.worth),
    "names side by side": lambda view: Rule(view.phrased),
    "second sentence .75": lambda view: Rule(view.worth + 0.75 * view.opens),
    "fresh 6": lambda view: Rule(view.worth, fresh=6),
    "number asked for 2": lambda view: Rule(view.worth + 2 * view.number),
    "all four": lambda view: Rule(view.phrased + 0.75 * view.opens + 2 * view.number, fresh=6),
    "relations read as one": lambda view: Rule(
        view.worth + WEIGHTS.match * (view.related_terms[0] @ view.related_terms[1] - view.bridge.core.match),
        terms=view.related_terms,
    ),
    "likeness to a pick -1": lambda view: Rule(view.worth, redundancy=1),
    "no updates, match 6": lambda view: Rule(view.worth + 4 * view.bridge.core.match, fresh=0),
    "length .5": lambda view: Rule(view.worth, length=0.5),
    "length 0": lambda view: Rule(view.worth, length=0),
    "exact set": lambda view: Rule(view.worth, exact=True),
    "pairs too": lambda view: Rule(view.worth, pairs=True),
}


@dataclass(frozen=True, eq=False)
class Fit:
    """Conditional logistic regression over the sentences of each question, in folds.

    Attributes
    ----------
    weights : dict
        From a fold to the weights of the features; None: of all questions.
    """

    weights: dict[int | None, Array] = field(default_factory=dict)

    @staticmethod
    def fold(view: View) -> int:
        return int(hashlib.md5(view.case.question.id.encode()).hexdigest(), 16) % 5

    @classmethod
    def of(cls, views: Sequence[Sequence[View]]) -> Fit:
        """From the views of several data sets, each of equal weight."""
        fit = cls()
        for left_out in (None, *range(5)):
            given = [
                (view, 1 / len(some))
                for some in views
                for view in some
                if view.holds.any() and (left_out is None or cls.fold(view) != left_out)
            ]
            fit.weights[left_out] = conditional_logit([v.features for v, _ in given], [v.holds for v, _ in given],
                                                      np.array([share for _, share in given]))  # fmt: skip
        return fit

    def rule(self, view: View, tune: bool) -> Rule:
        return Rule(view.features @ self.weights[self.fold(view) if tune else None])


def conditional_logit(
    features: Sequence[Array], holds: Sequence[NDArray[np.bool_]], shares: Array, penalty: float = 1e-3
) -> Array:
    """Weights under which the sentences that hold the answer have most of each question's probability."""
    rows = np.concatenate(features)
    centre, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    rows = (rows - centre) / scale
    lengths = np.array([len(one) for one in features])
    start = np.r_[0, np.cumsum(lengths)][:-1]
    hit = np.concatenate(holds)

    def loss(weights: Array) -> tuple[float, Array]:
        score = rows @ weights
        power = np.exp(score - np.maximum.reduceat(score, start).repeat(lengths))
        total, held = np.add.reduceat(power, start), np.add.reduceat(power * hit, start)
        pull = (shares / total).repeat(lengths) * power - (shares / held).repeat(lengths) * power * hit
        value = -(shares * np.log(held / total)).sum() + penalty * (weights @ weights)
        return float(value), rows.T @ pull + 2 * penalty * weights

    weights: Array = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
    return weights / scale


def views(data: Path, setting: Setting, only: str) -> Iterator[View]:
    """Of a setting of the bench, or of the file that its data set is named by."""
    for case in cases(data, setting, only) if setting in SETTINGS else of_file(data, setting.data, only):
        yield View(case, prepare_bridge(case.question.question, case.passages))


def of_file(data: Path, file: str, only: str) -> Iterator[Case]:
    for question in read_questions(data / "qa" / f"{file}.jsonl.gz").questions:
        if half(question.id) == only:
            documents = Corpus([question], merge_titles=True).documents
            yield Case(question, [Passage(d.text, title=d.title, id=d.name, doc=d.name) for d in documents])


def table(data: Path, settings: Sequence[Setting], only: str, names: Sequence[str] | None) -> None:
    rules = {n: rule for n, rule in RULES.items() if names is None or n in ("bridge", *names)}
    if names is None or "fitted" in names:
        own = [Setting(name, "own", None) for name in ("hotpotqa", "2wiki", "musique")]
        fit = Fit.of([list(views(data, setting, "tune")) for setting in own])
        rules["fitted"] = lambda view: fit.rule(view, only == "tune")
    kept: dict[str, dict[Setting, NDArray[np.float64]]] = defaultdict(dict)
    for setting in settings:
        rows = defaultdict(list)
        official, missed, opened = [], 0, 0
        for view in views(data, setting, only):
            for label, rule in rules.items():
                made = rule(view)
                orders = [chosen(view, made, budget) for budget in BUDGETS]
                rows[label].append([bool(view.holds[order].any()) for order in orders])
                if label == "bridge":
                    text = " ".join(view.bridge.texts[i] for i in orders[AT])
                    official.append(answer_in_context(text, view.case.question.answers).p1)
                    if view.holds.any() and not official[-1]:
                        missed += 1
                        opened += bool(set(view.document[view.gold & view.holds]) & set(view.document[orders[AT]]))
        for label, hits in rows.items():
            kept[label][setting] = np.array(hits, dtype=float)
        print(f"{name(setting)}, {only} half, {len(official)} questions: bridge {np.mean(official):.3f} official, "
              f"{kept['bridge'][setting][:, AT].mean():.3f} here; {missed} answers missed, {opened} of them in gold "
              "documents of which other sentences are there", flush=True)  # fmt: skip
    print("\n| rule | mean of all, four budgets |", " | ".join(name(setting) for setting in settings), "|")
    print("|---" * (len(settings) + 2) + "|")
    for label, hits in kept.items():
        cells = []
        for setting in settings:
            difference = hits[setting][:, AT] - kept["bridge"][setting][:, AT]
            low, high = interval(difference, 2000)
            cells.append(f"{difference.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
        mean = np.mean([hits[s].mean() - kept["bridge"][s].mean() for s in settings])
        print(f"| {label} | {mean:+.3f} |", " | ".join(cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tune", "test"), default="tune")
    parser.add_argument("--settings", nargs="*", choices=[name(s) for s in SETTINGS], metavar="SETTING")
    parser.add_argument("--rules", nargs="*", choices=[*RULES, "fitted"], metavar="RULE")
    parser.add_argument("--files", nargs="*", default=[], metavar="FILE", help="names without .jsonl.gz, not settings")
    options = parser.parse_args()
    settings = [s for s in SETTINGS if options.settings is None or name(s) in options.settings]
    settings = [Setting(file, "own", None) for file in options.files] or settings
    table(Path(os.environ["ISINGLASS_DATA"]), settings, options.half, options.rules)


if __name__ == "__main__":
    main()
