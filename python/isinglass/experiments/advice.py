"""The scope map made practical: from a sample, which policy and which budget pay, and what the sample cannot tell.

Bala (2026) names four conditions under which a packer that spreads over documents (`submodular`) beats the best
heuristic: questions whose evidence is complementary, a retrieval that surfaces it, a budget that binds without being
extreme, and a reader that needs the help. Each is measured here with an interval and held against a threshold. The
policies and budgets of the sample are then compared directly, which outweighs any map. Where an interval lies on both
sides, the answer is that it cannot be told.

References
----------
A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop RAG and When Submodular Evidence Packing Improves It".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import ceil
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from isinglass.experiments.rows import Rows
from isinglass.experiments.statistics import DRAWS, Interval, bootstrap_mean, bootstrap_means
from isinglass.experiments.summary import Floats, Key, Measure, Summary

YES, NO, CANNOT_TELL = "yes", "no", "cannot tell"


class Threshold(NamedTuple):
    """A line that an interval must keep to one side of.

    Attributes
    ----------
    value : float
    why : str
        Where it comes from.
    above : bool
        Whether what is asked for lies above it.
    """

    value: float
    why: str
    above: bool = True


THRESHOLDS = {
    "multi_hop": Threshold(0.5, "most questions: a policy is chosen for all of them"),
    "completeness": Threshold(
        0.10,
        "an answer that enters the context is worth about .39 F1; the largest gain published between packers is .05",
    ),
    "retrieved": Threshold(
        0.60, "between the .76 of HotpotQA, where spreading paid, and the .43 of 2WikiMultiHopQA, where it did not"
    ),
    "binds": Threshold(0.5, "most questions: where everything fits, every policy packs the same"),
    "extreme": Threshold(
        0.25,
        "no choice serves a question whose evidence alone is longer than the budget; a quarter is no fringe",
        False,
    ),
    "reader": Threshold(0.20, "half of the .39 F1 that an answer brought to the published 3B reader as it entered"),
    "matters": Threshold(0.03, "the least difference in the main measure that is worth a change"),
    "questions": Threshold(30, "of fewer questions a bootstrap interval is too narrow to be believed"),
}
"""What is decided by, in one place. Shares and differences in [0, 1]; `questions` is a number of questions."""

_POWER = NormalDist().inv_cdf(0.8)
_NOTHING = Interval(float("nan"), float("nan"), float("nan"), float("nan"), 0, 0)
_HEADROOM = ("oracle",)  # knows the answers, and can be no advice


@dataclass(frozen=True)
class Evidence:
    """One measured number of a condition.

    Attributes
    ----------
    name : str
        Its key in `THRESHOLDS`.
    label : str
        What is measured, in words.
    interval : Interval
    verdict : str
        Whether it lies above the threshold: ``yes``, ``no`` or ``cannot tell``.
    """

    name: str
    label: str
    interval: Interval
    verdict: str


@dataclass(frozen=True)
class Condition:
    """One of the four conditions.

    Attributes
    ----------
    name : str
        ``complementarity``, ``retrieval``, ``budget`` or ``reader``.
    budget : int or None
        That it holds at; None for a condition of all budgets (or of no limit).
    verdict : str
        ``yes``, ``no`` or ``cannot tell``.
    evidence : tuple of Evidence
    meaning : str
        What follows, in a sentence.
    """

    name: str
    budget: int | None
    verdict: str
    evidence: tuple[Evidence, ...]
    meaning: str


@dataclass(frozen=True)
class PolicyAdvice:
    """Which policy pays at a budget.

    Attributes
    ----------
    budget : int or None
    verdict : str
        ``pays``: `policy` beats every other. ``no difference``: the rivals are within what matters, and `policy` is
        the one of them that takes the fewest tokens. ``cannot tell``: `policy` has the best mean, no more.
    policy : str
    rivals : tuple of str
        Those that it cannot be told apart from, or that are as good for all that matters.
    beaten : tuple of str
        Those that the policy with the best mean beats.
    against : str or None
        The policy that decides the verdict: the best of the others or, where it cannot be told, the best of those that
        leave it open. None where no other was run.
    lead : Interval
        The best mean less that one's. The level allows for all pairs of policies at this budget (Bonferroni).
    questions_needed : int or None
        Where it cannot be told: about how many questions would show the difference that was seen, or the least one that
        matters, with a power of 80 %.
    """

    budget: int | None
    verdict: str
    policy: str
    rivals: tuple[str, ...]
    beaten: tuple[str, ...]
    against: str | None
    lead: Interval
    questions_needed: int | None


@dataclass(frozen=True)
class BudgetStep:
    """Whether the next larger budget pays, each with its policy.

    Attributes
    ----------
    budget, larger : int
    verdict : str
        ``pays``, ``no difference`` (less than what matters) or ``cannot tell``.
    gain : Interval
        Of the main measure.
    tokens : float
        More tokens a context, on average.
    """

    budget: int
    larger: int
    verdict: str
    gain: Interval
    tokens: float


@dataclass(frozen=True)
class Advice:
    """What a sample says of policies and budgets.

    Attributes
    ----------
    of : str
        The data set, with the retriever and the reader where they are known.
    questions : int
    measure : Measure or None
        That decides; None where nothing of the kind was measured.
    conditions : tuple of Condition
    policies : tuple of PolicyAdvice
        By budget.
    steps : tuple of BudgetStep
    budget : int or None
        The largest that is reached by steps that pay; None where no budget is advised.
    policy : str or None
        There; None where it cannot be told.
    """

    of: str
    questions: int
    measure: Measure | None
    conditions: tuple[Condition, ...]
    policies: tuple[PolicyAdvice, ...]
    steps: tuple[BudgetStep, ...]
    budget: int | None
    policy: str | None

    def at_its_budget(self) -> tuple[Condition, ...]:
        """The conditions, of those of a budget only that of the budget advised."""
        return tuple(c for c in self.conditions if c.name != "budget" or c.budget == self.budget)

    @property
    def in_scope(self) -> str:
        """Whether a packer that spreads over documents should be expected to beat the best heuristic.

        ``yes`` where all conditions that were measured hold (at the budget advised), ``no`` where one does not, else
        ``cannot tell``.
        """
        return _all(condition.verdict for condition in self.at_its_budget())

    def sentences(self) -> tuple[str, ...]:
        """The advice in words: what to do first, then why."""
        return _sentences(self)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "of": self.of,
            "questions": self.questions,
            "measure": None if self.measure is None else self.measure.name,
            "policy": self.policy,
            "budget": self.budget,
            "in_scope": self.in_scope,
            "conditions": [
                vars(condition) | {"evidence": [_plain(evidence) for evidence in condition.evidence]}
                for condition in self.conditions
            ],
            "policies": [_plain(advice) for advice in self.policies],
            "steps": [_plain(step) for step in self.steps],
            "thresholds": {name: threshold._asdict() for name, threshold in THRESHOLDS.items()},
            "sentences": list(self.sentences()),
        }


def advise(rows: Rows, *, draws: int = DRAWS) -> tuple[Advice, ...]:
    """Say which policy and which budget pay, with the numbers, and what the sample cannot tell.

    Parameters
    ----------
    rows : Rows
        Of `isinglass evaluate --rows` or an experiment: best with several policies and budgets, and with a reader's
        answers.
    draws : int
        Of the bootstrap.

    Returns
    -------
    tuple of Advice
        One for each data set, retriever and reader.

    Raises
    ------
    ValueError
        If the rows are no table of `evaluate`.
    """
    varied = [name for name in ("dataset", "retriever", "reader") if name in rows and rows[name].dtype == object]
    kept = rows.take(~np.isin(rows["policy"], np.array(_HEADROOM, dtype=object))) if "policy" in rows else rows
    if not varied or not len(kept):
        return (_advise("", Summary.of(kept), draws),)
    group = kept.keys(varied)
    found = []
    for number in dict.fromkeys(group.tolist()):
        of_one = kept.take(group == number)
        named = [str(of_one[name][0]) for name in varied if of_one[name][0] is not None]
        found.append(_advise(", ".join(named), Summary.of(of_one), draws))
    return tuple(found)


def _advise(of: str, summary: Summary, draws: int) -> Advice:
    sample = _Sample(summary, draws)
    policies = tuple(advice for budget in summary.budgets if (advice := sample.policy(budget)) is not None)
    by_budget = {advice.budget: advice for advice in policies}
    steps = sample.steps(by_budget)
    budget = _reached(steps, by_budget)
    chosen = by_budget.get(budget) or by_budget.get(None)
    limits = [sample.budget(size) for size in summary.budgets]
    conditions = [sample.complementarity(), sample.retrieval(), *limits]
    if summary.answered:
        conditions.append(sample.reader())
    return Advice(
        of=of,
        questions=len(set(summary.clusters.tolist())),
        measure=summary.main,
        conditions=tuple(conditions),
        policies=policies,
        steps=steps,
        budget=budget,
        policy=None if chosen is None or chosen.verdict == CANNOT_TELL else chosen.policy,
    )


class _Sample:
    """A summary, and how its numbers are drawn."""

    def __init__(self, summary: Summary, draws: int) -> None:
        self._summary = summary
        self._draws = draws

    def mean(self, values: Floats, clusters: Any = None, level: float = 0.95) -> Interval:
        of = self._summary.clusters if clusters is None else clusters
        return bootstrap_mean(values, of, draws=self._draws, level=level)

    def evidence(self, name: str, label: str, values: Floats, clusters: Any = None) -> Evidence:
        interval = self.mean(values, clusters)
        return Evidence(name, label, interval, _above(interval, THRESHOLDS[name].value))

    def column(self, name: str) -> Floats:
        """A column that is the same for all policies and budgets."""
        columns = [values[name] for values in self._summary.values.values() if name in values]
        return _first_known(columns) if columns else np.full(len(self._summary.questions), np.nan)

    def complementarity(self) -> Condition:
        gold = self.column("gold_documents")
        several = np.where(np.isnan(gold), np.nan, gold >= 2)
        hops = self.evidence("multi_hop", "questions with two or more gold documents", several)
        worth = self.evidence(
            "completeness", "answer in context, all gold documents there less some of them missing, same question",
            *self.within("all_gold_in_context", "answer_in_context"),
        )  # fmt: skip
        verdict = _all((hops.verdict, worth.verdict))
        meaning = {
            YES: "evidence is spread over documents, and holding all of them brings the answer in",
            NO: "one document answers most questions: rank well, and do not pay for spread"
            if hops.verdict == NO
            else "holding all gold documents hardly brings the answer in: look at what is cut out of them",
            CANNOT_TELL: "not shown whether holding all gold documents pays",
        }[verdict]
        return Condition("complementarity", None, verdict, (hops, worth), meaning)

    def retrieval(self) -> Condition:
        found = self.evidence(
            "retrieved", "questions with every gold document retrieved", self.column("all_gold_retrieved")
        )
        meaning = {
            YES: "the evidence is there to be packed",
            NO: "retrieval bounds what packing can do: retrieve better or deeper first",
            CANNOT_TELL: "not shown whether retrieval surfaces enough",
        }[found.verdict]
        return Condition("retrieval", None, found.verdict, (found,), meaning)

    def budget(self, budget: int | None) -> Condition:
        size = np.inf if budget is None else budget
        held = {name: self.column(name) for name in ("retrieved_tokens", "evidence_tokens")}
        longer = {name: np.where(np.isnan(column), np.nan, column > size) for name, column in held.items()}
        binds = self.evidence(
            "binds", "questions that retrieve more tokens than the budget", longer["retrieved_tokens"]
        )
        extreme = self.evidence(
            "extreme", "questions whose labelled evidence alone is longer than the budget", longer["evidence_tokens"]
        )
        # Without labels nobody knows what is too little; that the budget binds is then all there is.
        labelled = extreme.interval.n > 0
        fits = {YES: NO, NO: YES, CANNOT_TELL: CANNOT_TELL}[extreme.verdict] if labelled else YES
        verdict = _all((binds.verdict, fits))
        if binds.verdict == NO:
            meaning = "most of what is retrieved fits: any policy will do"
        elif labelled and fits == NO:
            meaning = "too small: for many questions no choice holds the evidence"
        else:
            meaning = {YES: "it binds, and the evidence fits", NO: ""}.get(verdict, "not shown whether it binds")
        return Condition("budget", budget, verdict, (binds, extreme) if labelled else (binds,), meaning)

    def reader(self) -> Condition:
        gain = self.evidence(
            "reader", "answer F1, answer in context less not, same question",
            *self.within("answer_in_context", "f1"),
        )  # fmt: skip
        meaning = {
            YES: "the reader uses what packing brings in",
            NO: "the reader hardly gains from answers in its context: look at the reader and the form of answers",
            CANNOT_TELL: "not shown how much the reader gains from answers in its context",
        }[gain.verdict]
        return Condition("reader", None, gain.verdict, (gain,), meaning)

    def within(self, feature: str, outcome: str) -> tuple[Floats, Floats]:
        """How much better an outcome is where a feature holds, and the question of each value.

        Compared are the policies on one question at one budget: what is easy or hard about it is the same for all.
        """
        summary = self._summary
        differences, questions = [], []
        for budget in summary.budgets:
            keys = [key for key in summary.at(budget) if {feature, outcome} <= summary.values[key].keys()]
            if not keys:
                continue
            held, reached = (np.stack([summary.values[key][name] for key in keys]) for name in (feature, outcome))
            known = ~np.isnan(held) & ~np.isnan(reached)
            means = [_mean_where(reached, known & (held == truth)) for truth in (1, 0)]
            differences.append(means[0] - means[1])
            questions.append(summary.clusters)
        if not differences:
            return np.empty(0), np.empty(0)
        return np.concatenate(differences), np.concatenate(questions)

    def policy(self, budget: int | None) -> PolicyAdvice | None:
        summary, main = self._summary, self._summary.main
        if main is None:
            return None
        values = {key.policy: summary.values[key][main.name] for key in summary.at(budget)}
        means = {policy: float(np.nanmean(found)) for policy, found in values.items() if not np.isnan(found).all()}
        if not means:
            return None
        best, *others = sorted(means, key=lambda policy: -means[policy])
        if not others:
            return PolicyAdvice(budget, CANNOT_TELL, best, (), (), None, _NOTHING, None)
        level = 1 - 0.05 / len(list(combinations(means, 2)))
        table = np.stack([values[best] - values[other] for other in others], axis=1)
        leads = dict(zip(others, bootstrap_means(table, summary.clusters, draws=self._draws, level=level)))
        matters = THRESHOLDS["matters"].value
        few = {other for other, lead in leads.items() if lead.clusters < THRESHOLDS["questions"].value}
        beaten = tuple(other for other in others if leads[other].low > 0 and other not in few)
        rivals = tuple(other for other in others if other not in beaten)
        undecided = [rival for rival in rivals if rival in few or leads[rival].high >= matters]
        if undecided:
            against = undecided[0]
            needed = max(_needed(table[:, others.index(rival)], level) for rival in undecided)
            return PolicyAdvice(budget, CANNOT_TELL, best, rivals, beaten, against, leads[against], needed)
        if not rivals:
            return PolicyAdvice(budget, "pays", best, (), beaten, others[0], leads[others[0]], None)
        spent = {p: float(np.nanmean(summary.values[Key(p, budget)]["tokens"])) for p in (best, *rivals)}
        policy = min(spent, key=lambda p: spent[p])
        as_good = tuple(p for p in (best, *rivals) if p != policy)
        return PolicyAdvice(budget, "no difference", policy, as_good, beaten, rivals[0], leads[rivals[0]], None)

    def steps(self, by_budget: Mapping[int | None, PolicyAdvice]) -> tuple[BudgetStep, ...]:
        """From each budget to the next, with the policy that is best at each."""
        summary, main = self._summary, self._summary.main
        steps = []
        for smaller, larger in pairwise(budget for budget in by_budget if budget is not None):
            ends = [summary.values[Key(by_budget[budget].policy, budget)] for budget in (smaller, larger)]
            assert main is not None
            gain = self.mean(ends[1][main.name] - ends[0][main.name])
            few = gain.clusters < THRESHOLDS["questions"].value
            if few or np.isnan(gain.estimate):
                verdict = CANNOT_TELL
            elif gain.low > 0 and gain.high >= THRESHOLDS["matters"].value:
                verdict = "pays"
            else:
                verdict = "no difference" if gain.high < THRESHOLDS["matters"].value else CANNOT_TELL
            tokens = float(np.nanmean(ends[1]["tokens"] - ends[0]["tokens"]))
            steps.append(BudgetStep(smaller, larger, verdict, gain, tokens))
        return tuple(steps)


def _reached(steps: Sequence[BudgetStep], by_budget: Mapping[int | None, PolicyAdvice]) -> int | None:
    budget = next((budget for budget in by_budget if budget is not None), None)
    for step in steps:
        if step.verdict != "pays":
            break
        budget = step.larger
    return budget


def _needed(differences: Floats, level: float) -> int:
    """Questions that would show a difference like this one, if it matters, by the normal approximation."""
    known = differences[~np.isnan(differences)]
    least = int(THRESHOLDS["questions"].value)
    if len(known) < 2:
        return least
    z = NormalDist().inv_cdf((1 + level) / 2) + _POWER
    seen = max(THRESHOLDS["matters"].value, abs(float(known.mean())))
    return max(least, ceil((z * float(known.std(ddof=1)) / seen) ** 2))


def _above(interval: Interval, threshold: float) -> str:
    if interval.clusters < THRESHOLDS["questions"].value or np.isnan(interval.estimate):
        return CANNOT_TELL
    return YES if interval.low > threshold else NO if interval.high < threshold else CANNOT_TELL


def _all(verdicts: Any) -> str:
    found = set(verdicts)
    return NO if NO in found else CANNOT_TELL if CANNOT_TELL in found else YES


def _first_known(columns: Sequence[Floats]) -> Floats:
    known = np.array(columns[0])
    for column in columns[1:]:
        known = np.where(np.isnan(known), column, known)
    return known


def _mean_where(values: Floats, mask: Any) -> Floats:
    count = mask.sum(axis=0)
    total = np.where(mask, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _plain(value: Any) -> dict[str, Any]:
    return {name: _json(part) for name, part in vars(value).items()}


def _json(value: Any) -> Any:
    if isinstance(value, Interval):
        return {name: _json(part) for name, part in value._asdict().items()}
    return None if isinstance(value, float) and np.isnan(value) else value


def _sentences(advice: Advice) -> tuple[str, ...]:
    if advice.measure is None:
        return ("Nothing can be told: neither answers nor contexts were measured against gold.",)
    measure = advice.measure.words
    by_budget = {found.budget: found for found in advice.policies}
    chosen = by_budget.get(advice.budget) or by_budget.get(None)
    lines = [] if chosen is None else [_choice(chosen, measure)]
    for step in advice.steps:
        gain = _signed(step.gain)
        words = {
            "pays": f"From {step.budget} to {step.larger} tokens pays: {gain} in {measure}",
            "no difference": f"From {step.budget} to {step.larger} tokens changes nothing that matters: {gain}",
            CANNOT_TELL: f"From {step.budget} to {step.larger} tokens cannot be told: {gain}",
        }[step.verdict]
        lines.append(f"{words}, for {step.tokens:.0f} tokens more.")
    if advice.steps and all(step.verdict == "pays" for step in advice.steps):
        lines.append(f"The curve still rises at {advice.steps[-1].larger} tokens, the largest budget tried.")
    if not advice.steps:
        lines.append("Which budget pays cannot be told from one: try several.")
    lines += [_choice(found, measure) for found in advice.policies if found is not chosen]
    lines.append(_scope(advice))
    return tuple(lines)


def _choice(found: PolicyAdvice, measure: str) -> str:
    where = "Without a limit" if found.budget is None else f"At {found.budget} tokens"
    if found.against is None:
        return f"{where} only {found.policy} was run: run others beside it."
    lead = _signed(found.lead)
    least = THRESHOLDS["questions"].value
    if found.lead.clusters < least:
        return f"{where} cannot tell: {found.lead.clusters} questions are too few, {least} are the least."
    if found.verdict == "pays":
        return f"{where} take {found.policy}: {lead} in {measure} over {found.against}, the next best."
    beaten = f"; {_listed(found.beaten)} {'is' if len(found.beaten) == 1 else 'are'} worse" if found.beaten else ""
    if found.verdict == "no difference":
        return f"{where} take {found.policy}: as good as {_listed(found.rivals)}, for the fewest tokens{beaten}."
    rivals = _listed(found.rivals) if len(found.rivals) < 5 else f"{len(found.rivals)} others"
    return (
        f"{where} cannot tell {found.policy} from {rivals}: {lead} in {measure} against {found.against} "
        f"on {found.lead.clusters} questions, about {found.questions_needed:,} would tell{beaten}."
    )


def _scope(advice: Advice) -> str:
    if advice.in_scope == YES:
        return "All conditions hold under which spreading over documents (submodular) has beaten the best heuristic."
    where = advice.at_its_budget()
    named = _listed([condition.name for condition in where if condition.verdict == advice.in_scope])
    if advice.in_scope == NO:
        return (
            f"Spreading over documents (submodular) has not beaten the best heuristic where this fails: {named}. "
            "A direct comparison, above, outweighs this."
        )
    return f"Whether spreading over documents (submodular) should pay cannot be told, for want of: {named}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _signed(interval: Interval) -> str:
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
