"""Policies on question files: retrieve, pack under a budget, measure what survived."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isinglass import backends, diagnosis
from isinglass.experiments.corpus import Document
from isinglass.experiments.datasets import Question, oddities, read_questions
from isinglass.experiments.retrieval import Embed, Retrieve, by_retriever, by_run
from isinglass.experiments.rows import Rows
from isinglass.experiments.runs import read_run
from isinglass.experiments.statistics import Interval, paired_bootstrap
from isinglass.measure import Passage, Pool, prepare
from isinglass.measure.candidates import GRAINS
from isinglass.measure.pool import MEASURES, RENDERS, one_of
from isinglass.measure.requirements import Labeller, OracleLabeller, evidence_problem, rule_requirements
from isinglass.measure.text import count_words
from isinglass.policies import POLICIES, find_policy
from isinglass.problems import gate
from isinglass.problems.evidence import EvidenceProblem
from isinglass.records import RecordError, skipped_fields
from isinglass.selecting import Selected, select_from

DEPTHS = (1, 2, 5)
"""Depths of the recall columns, as published; the depth of retrieval joins them where it is another."""

Values = dict[str, float | None]
Variant = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Evaluation:
    """What each policy made of each question.

    Attributes
    ----------
    ids : tuple of str, length q
        The questions processed, in file order.
    skipped : tuple of RecordError
        What `keep_going` passed over, with the reason.
    not_in_run : int
        Questions of the files that no run lists; a run says which questions are meant.
    not_in_files : int
        Questions of the runs that no file holds.
    oddities : dict of str to int
        Of the questions processed; see `isinglass.experiments.datasets.oddities`.
    rows : dict of (str, int or None) to dict of str to ndarray, shape (q,)
        For each (policy, budget) and measure, the value of every question; nan where it is not defined.
    table : Rows
        The same questions as the table of an experiment: one row a question, policy and budget; see `packed`.
    golds : dict of (str, str) to tuple of str
        Gold answers of each (dataset, question) of the table.
    settings : dict
        How it was run.
    """

    ids: tuple[str, ...]
    skipped: tuple[RecordError, ...]
    not_in_run: int
    not_in_files: int
    oddities: dict[str, int]
    rows: dict[tuple[str, int | None], dict[str, npt.NDArray[np.float64]]]
    table: Rows
    golds: dict[tuple[str, str], tuple[str, ...]]
    settings: dict[str, Any]

    def means(self, policy: str, budget: int | None) -> dict[str, float | None]:
        """Mean of every measure over the questions where it is defined; None where that is nowhere."""
        means: dict[str, float | None] = {}
        for name, values in self.rows[policy, budget].items():
            defined = values[~np.isnan(values)]
            means[name] = float(defined.mean()) if len(defined) else None
        return means

    def differences(self, baseline: str, **options: Any) -> dict[tuple[str, int | None], dict[str, Interval]]:
        """What each other policy changes against one, at the same budget: every measure with its paired bootstrap.

        Parameters
        ----------
        baseline : str
            A policy that was evaluated.
        **options
            Of `isinglass.experiments.statistics.paired_bootstrap`.
        """
        if baseline not in (known := list(dict.fromkeys(policy for policy, _ in self.rows))):
            raise ValueError(f"baseline must be one of the policies evaluated ({', '.join(known)}), got {baseline!r}")
        return {
            (policy, budget): {
                name: paired_bootstrap(values, self.rows[baseline, budget][name], **options)
                for name, values in columns.items()
                if name.partition("@")[0] not in _OF_RETRIEVAL
            }
            for (policy, budget), columns in self.rows.items()
            if policy != baseline
        }

    def as_dict(self, baseline: str | None = None) -> dict[str, Any]:
        """For JSON; `policies` maps a policy to its measures or, with several budgets, to those of each budget.

        With a baseline, `differences` has the same shape: what each policy changes against it, with a 95 % interval.
        """
        fields = (
            {}
            if baseline is None
            else {
                "baseline": baseline,
                "differences": self._by_policy(
                    {
                        key: {name: _json_interval(interval) for name, interval in columns.items()}
                        for key, columns in self.differences(baseline).items()
                    }
                ),
            }
        )
        return {
            "questions": len(self.ids),
            **skipped_fields(self.skipped),
            "not_in_run": self.not_in_run,
            "not_in_files": self.not_in_files,
            "oddities": self.oddities,
            "settings": self.settings,
            "undefined": {
                name: int(np.isnan(values).sum()) for name, values in next(iter(self.rows.values()), {}).items()
            },
            "policies": self._by_policy({key: self.means(*key) for key in self.rows}),
        } | fields

    def _by_policy(self, values: Mapping[tuple[str, int | None], Mapping[str, Any]]) -> dict[str, Any]:
        """By policy and measure, its columns below it; with several budgets, by budget in between."""
        policies: dict[str, Any] = {}
        for (policy, budget), columns in values.items():
            measures: dict[str, Any] = {}
            for name, value in columns.items():
                measure, _, column = name.partition(".")
                if column:
                    measures.setdefault(measure, {})[column] = value
                else:
                    measures[measure] = value
            if len(self.settings["budgets"]) == 1:
                policies[policy] = measures
            else:
                policies.setdefault(policy, {})[str(budget)] = measures
        return policies


_OF_RETRIEVAL = ("recall", "all_gold")  # the same for every policy


def _json_interval(interval: Interval) -> dict[str, float | int | None]:
    return {name: None if np.isnan(value) else value for name, value in interval._asdict().items()}


class _File(NamedTuple):
    path: str
    questions: Sequence[Question]
    retrieve: Retrieve


def evaluate(
    paths: str | Path | Sequence[str | Path],
    *,
    policies: Sequence[str],
    budgets: int | Sequence[int | None] | None,
    measure: str = "default",
    candidates: str | None = None,
    render: str | None = None,
    max_passages: int | None = None,
    requirements: Labeller | str = "rules",
    variants: Mapping[str, Variant] | None = None,
    retriever: str = "bm25",
    pool: str | None = None,
    top_k: int | None = 5,
    runs: Sequence[str | Path] = (),
    embed: Embed | None = None,
    backend: str = "auto",
    keep_going: bool = False,
    limit: int | None = None,
    trace: diagnosis.Trace | str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Retrieve paragraphs for every question of some files, pack them by each policy, and measure the contexts.

    Parameters
    ----------
    paths : path or sequence of paths
        Question files, see `read_questions`.
    policies : sequence of str
        Names of `isinglass.policies.POLICIES`.
    budgets : int or None, or sequence of them
        Tokens, >= 0; None for no limit.
    measure : {"default", "p1"}
        "p1" follows the published documents, candidates, counter and context exactly.
    candidates : {"passages", "sentences", "windows"}, optional
        What may be chosen. Default: by policy and measure, as for `isinglass.select`.
    render : {"plain", "titled"}, optional
        Whether titles are part of the context. Default: by policy; "plain" in ``measure="p1"``.
    max_passages : int, optional
        At most so many candidates a context, for every policy.
    requirements : callable or {"rules", "oracle"}
        What the policies that ask for requirements are told, and what the measures of the chosen set are taken by: a
        labeller, see `isinglass.measure.requirements`. "oracle" tells them the supporting facts: a bound, no policy.
    variants : dict of str to (policy, options), optional
        Further policies under names of their own: a policy with options of `isinglass.policies.choose`.
    retriever : {"bm25", "embed", "none"}
        "none" hands every paragraph of the question to the packer. Not asked where `runs` are given.
    pool : {"own", "file"}, optional
        Where paragraphs are retrieved from: the question's own, or those of all questions of its file. Default: "own";
        with `runs`, the smaller one that holds every document of the run.
    top_k : int, optional
        Paragraphs retrieved, or taken from a run; None for all.
    runs : sequence of paths
        Retrieval runs, see `read_run`. They say which questions are evaluated.
    embed : callable, optional
        For `retriever="embed"`: from a list of texts to an array of shape (texts, d).
    backend : str
        Of the policies that solve a packing problem.
    keep_going : bool
        Pass over records and questions that fail, and list them in `skipped`.
    limit : int, optional
        Read only the first questions of each file; `pool="file"` is then the paragraphs of those.
    trace : path or Trace, optional
        A file to which one JSON line is added for every selection, under the question's id, with its type for a bucket
        and its gold documents. A `Trace` with `text` adds the texts and the gold answers.
    progress : callable, optional
        Called with (questions done, questions in all).

    Returns
    -------
    Evaluation

    Raises
    ------
    RecordError
        At the first faulty record or question without `keep_going` (a ValueError), with the file.
    ValueError
        For an option out of range, or two files of one name.
    ImportError
        If BM25 is asked for and bm25s is not installed (extra `eval`).
    """
    named = {name: (find_policy(policy).name, options) for name, (policy, options) in (variants or {}).items()}
    if taken := [name for name in named if name in POLICIES]:
        raise ValueError(f"variants must have names of their own, got that of the policy {taken[0]!r}")
    names = tuple(dict.fromkeys([find_policy(policy).name for policy in policies] + list(named)))
    if not names:
        raise ValueError("policies must name at least one policy, got none")
    sizes = tuple(dict.fromkeys(_budgets(budgets)))
    published = MEASURES[one_of("measure", measure, tuple(MEASURES))].published
    if candidates is not None:
        one_of("candidates", candidates, GRAINS)
    if render is not None:
        one_of("render", render, RENDERS)
    if not callable(requirements):
        one_of("requirements", requirements, ("rules", "oracle"))
    if max_passages is not None:
        gate.integer("max_passages", max_passages, low=1)
    depth = None if top_k is None else gate.integer("top_k", top_k, low=1)
    if backend != "auto":
        backends.load(backend)
    run = _merged(runs)

    files: list[_File] = []
    skipped: list[RecordError] = []
    not_in_run = 0
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        try:
            questions, faults = read_questions(path, keep_going=keep_going, limit=limit)
        except OSError as error:
            if not keep_going:
                raise
            questions, faults = (), (RecordError(str(path), 0, error.strerror or str(error)),)
        skipped.extend(faults)
        if any(dataset_name(path) == dataset_name(file.path) for file in files):
            raise ValueError(f"files must have names of their own, got {dataset_name(path)!r} twice")
        if run is None:
            retrieve = by_retriever(
                questions, retriever, pool=pool or "own", top_k=depth, published=published, embed=embed
            )
            files.append(_File(str(path), questions, retrieve))
        else:
            meant = tuple(question for question in questions if question.id in run)
            not_in_run += len(questions) - len(meant)
            files.append(_File(str(path), meant, by_run(run, questions, pool=pool, top_k=depth, published=published)))

    plan = Plan(names, sizes, measure, candidates, depth, backend, trace, render, max_passages, requirements, named)
    processed: list[Question] = []
    rows: dict[tuple[str, int | None], dict[str, list[float | None]]] = {
        (name, size): {} for name in names for size in sizes
    }
    total = sum(len(file.questions) for file in files)
    table: list[dict[str, Any]] = []
    golds: dict[tuple[str, str], tuple[str, ...]] = {}
    of_retrieval = "run" if run is not None else retriever
    done = 0
    for file in files:
        dataset = dataset_name(file.path)
        for question in file.questions:
            try:
                measured, records = _measured(question, file.retrieve(question), replace(plan, dataset=dataset))
            except ValueError as error:
                fault = RecordError(file.path, 0, f"question {question.id!r}: {error}")
                if not keep_going:
                    raise fault from error
                skipped.append(fault)
            else:
                processed.append(question)
                golds[dataset, question.id] = question.answers
                table.extend({"dataset": dataset, "retriever": of_retrieval} | record for record in records)
                for key, values in measured.items():
                    for name, value in values.items():
                        rows[key].setdefault(name, []).append(value)
            done += 1
            if progress is not None:
                progress(done, total)
    return Evaluation(
        ids=tuple(question.id for question in processed),
        skipped=tuple(skipped),
        not_in_run=not_in_run,
        not_in_files=len((run or {}).keys() - {question.id for file in files for question in file.questions}),
        oddities=oddities(processed),
        rows={
            key: {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
            for key, columns in rows.items()
        },
        table=Rows.of(table),
        golds=golds,
        settings={
            "budgets": list(sizes),
            "measure": measure,
            "candidates": candidates,
            "render": render,
            "max_passages": max_passages,
            "requirements": requirements if isinstance(requirements, str) else _named(requirements),
            "counter": MEASURES[measure].counter.name,
            "retriever": of_retrieval,
            "pool": pool or ("own" if run is None else None),
            "top_k": depth,
            "backend": backend,
        },
    )


@dataclass(frozen=True)
class Plan:
    """What is done with every question; see `evaluate`."""

    policies: tuple[str, ...]
    budgets: tuple[int | None, ...]
    measure: str
    candidates: str | None
    depth: int | None
    backend: str
    trace: diagnosis.Trace | str | os.PathLike[str] | None
    render: str | None = None
    max_passages: int | None = None
    requirements: Labeller | str = "rules"
    variants: Mapping[str, Variant] = field(default_factory=dict)
    dataset: str | None = None


def dataset_name(path: str | Path) -> str:
    """Name of the data set that a question file holds: the file's, up to the first dot."""
    return Path(path).name.partition(".")[0]


def _measured(
    question: Question, retrieved: Sequence[Document], plan: Plan
) -> tuple[dict[tuple[str, int | None], Values], list[dict[str, Any]]]:
    """The measures of each (policy, budget) on one question, and its rows."""
    found = [document.name for document in retrieved]
    gold = question.gold_documents
    depths = sorted({*DEPTHS, plan.depth or max(DEPTHS)})
    ranking: Values = {}
    for k in depths:
        ranking[f"recall@{k}"] = diagnosis.recall_at(found, gold, k)
        ranking[f"all_gold@{k}"] = diagnosis.all_gold_at(found, gold, k)
    measured: dict[tuple[str, int | None], Values] = {}
    rows = []
    for row, picked, evidence in packed(question, retrieved, plan, depths):
        measured[row["policy"], row["budget"]] = ranking | _survival(question, picked) | evidence
        rows.append(row)
    return measured, rows


def packed(
    question: Question, retrieved: Sequence[Document], plan: Plan, depths: Sequence[int], *, facts: bool = False
) -> Iterator[tuple[dict[str, Any], Selected, Values]]:
    """What each policy of a plan makes of a question at each budget.

    Parameters
    ----------
    question : Question
    retrieved : sequence of Document
    plan : Plan
    depths : sequence of int
        Of the columns of the retrieved list.
    facts : bool
        Also measure the facts of long answers.

    Yields
    ------
    row : dict
        Of an experiment's table: the question with its bucket (the data set's own type), the policy and budget, what
        `isinglass.diagnose` measures, the measures of the evidence, and features of the retrieval.
    picked : Selected
    evidence : dict
        The measures of the evidence, None where one is not defined.
    """
    passages = as_retrieved(retrieved)
    measures = EvidenceMeasures(question, retrieved, plan.requirements)
    found = [document.name for document in retrieved]
    of_retrieval = {
        "all_gold_retrieved": diagnosis.all_gold_at(found, question.gold_documents, len(found)),
        "gold_documents": len(question.gold_documents),
        "evidence_tokens": _evidence_tokens(question, retrieved),
        "question_tokens": count_words(question.question),
        "retrieved_tokens": sum(count_words(document.text) for document in retrieved),
        "hits": sum(len(document.hits) for document in retrieved),
    }
    made = list(selections(question, retrieved, plan))
    many = len(made)
    contexts = [picked for _, _, picked, _ in made]
    diagnoses = diagnosis.diagnose(contexts, [question] * many, [passages] * many, depths=depths, facts=facts)
    for (policy, budget, picked, pool), diagnosed in zip(made, diagnoses):
        evidence = measures.of(picked, pool)
        strongest = np.sort(pool.relevance)[::-1]
        named = diagnosed.as_dict()
        del named["id"]
        row = {
            "question": question.id, "bucket": question.type, "policy": policy, "budget": budget,
            **{name: value for name, value in (named | evidence).items() if value is not None},
            **of_retrieval,
            "candidates": len(pool),
            "top_relevance": float(strongest[0]) if len(pool) else 0.0,
            "relevance_margin": float(strongest[0] - strongest[:10].mean()) if len(pool) else 0.0,
        }  # fmt: skip
        yield row, picked, evidence


def selections(
    question: Question, retrieved: Sequence[Document], plan: Plan
) -> Iterator[tuple[str, int | None, Selected, Pool]]:
    """What each policy of a plan picks at each budget: (policy, budget, selection, the pool it was picked from)."""
    passages = as_retrieved(retrieved)
    hits = None
    if any(document.hits for document in retrieved):
        hits = [document.hits or (document.text,) for document in retrieved]
    where = None
    if plan.trace is not None:
        where = replace(
            diagnosis.Trace.of(plan.trace), query_id=question.id, bucket=question.type, dataset=plan.dataset,
            answers=question.answers, gold=question.gold_documents,
        )  # fmt: skip
    labeller = _labeller(question, retrieved, plan.requirements)
    pools: dict[tuple[str | None, str], Pool] = {}
    for name in plan.policies:
        kind, own = plan.variants.get(name, (name, {}))
        policy = find_policy(kind)
        # A published context has no titles, and its snippets stand in order of choice.
        published = MEASURES[plan.measure].published
        grain = plan.candidates or policy.candidates
        render = plan.render or ("plain" if published else policy.render)
        if (grain, render) not in pools:
            pools[grain, render] = prepare(
                question.question, passages, measure=plan.measure, candidates=grain, render=render, hits=hits
            )
        pool = pools[grain, render]
        options: dict[str, Any] = {"order": "choice"} if published else {}
        if plan.max_passages is not None:
            options["max_items"] = plan.max_passages
        if "requirements" in policy.options:
            options["requirements"] = labeller
        if "backend" in policy.options:
            options["backend"] = plan.backend
        options |= own
        for budget in plan.budgets:
            # No context costs more than all candidates together.
            tokens = int(pool.costs.sum()) + pool.fixed_cost if budget is None else budget
            named = where if where is None or name == kind else replace(where, variant=name)
            yield name, budget, select_from(pool, tokens, policy=kind, trace=named, **options), pool


def as_retrieved(retrieved: Sequence[Document]) -> list[Passage]:
    """Documents as passages, each its own document."""
    return [Passage(document.text, title=document.title, id=document.name, doc=document.name) for document in retrieved]


def _survival(question: Question, picked: Selected) -> Values:
    gold = question.gold_documents
    documents = [snippet.doc for snippet in picked.snippets]
    answer = diagnosis.answer_in_context(picked.text, question.answers)
    return {
        "answer_in_context.p1": answer.p1,
        "answer_in_context.defined": answer.defined,
        "gold_doc_coverage": diagnosis.gold_doc_coverage(documents, gold),
        "all_gold_in_context": diagnosis.all_gold_in_context(documents, gold),
        "gold_token_density": diagnosis.gold_token_density(documents, [s.cost for s in picked.snippets], gold),
        "distractor_docs": diagnosis.distractor_docs(documents, gold),
        "tokens": picked.cost,
        "snippets": len(picked.snippets),
    }


def _disjoint(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ascending spans without their overlaps."""
    at = 0
    for start, end in spans:
        yield max(start, at), max(end, at)
        at = max(end, at)


def _evidence_tokens(question: Question, retrieved: Sequence[Document]) -> int | None:
    """Words of the supporting facts that were retrieved; None where sentences are not labelled, or none of them was."""
    facts = set(question.supporting_facts or ())
    texts = [
        document.text[start:end]
        for document in retrieved
        for number, (start, end) in enumerate(document.sentences)
        if (document.title, number) in facts
    ]
    return sum(map(count_words, texts)) if texts else None


class EvidenceMeasures:
    """Supporting facts of a selection, and the measures of its set by the requirements of the question.

    Parameters
    ----------
    question : Question
    retrieved : sequence of Document
        That the selection was made from.
    requirements : callable or {"rules", "oracle"}
        See `evaluate`.
    """

    def __init__(self, question: Question, retrieved: Sequence[Document], requirements: Labeller | str) -> None:
        self._question = question
        self._retrieved = retrieved
        self._labeller = _labeller(question, retrieved, requirements)
        self._problems: dict[Pool, tuple[EvidenceProblem, npt.NDArray[np.int64]]] = {}

    def of(self, picked: Selected, pool: Pool) -> Values:
        """The measures of a selection from a pool."""
        if pool not in self._problems:
            # Items are different texts; `item` is that of each candidate in input order.
            items = np.flatnonzero(pool.first_copy == np.arange(len(pool)))
            item = np.searchsorted(items, pool.first_copy)[np.lexsort((pool.sentence, pool.passage))]
            self._problems[pool] = evidence_problem(pool, self._labeller(pool), items=items), item
        problem, item = self._problems[pool]
        chosen = np.unique(item[[snippet.candidate for snippet in picked.snippets]])
        return self._facts(picked) | diagnosis.set_measures(problem, chosen)._asdict()

    def _facts(self, picked: Selected) -> Values:
        """By HotpotQA's script; a sentence of the file is given where half of it is in the context."""
        names = ("supporting_fact_precision", "supporting_fact_recall", "supporting_fact_f1")
        if self._question.supporting_facts is None:
            return dict.fromkeys(names)
        given = set()
        for kept in picked.passages:
            document = self._retrieved[kept.index]
            for number, (start, end) in enumerate(document.sentences):
                shown = sum(max(0, min(end, high) - max(start, low)) for low, high in _disjoint(kept.spans))
                if 0 < end - start <= 2 * shown:
                    given.add((document.title, number))
        score = diagnosis.supporting_fact_score(given, self._question.supporting_facts)
        return dict(zip(names, (score.precision, score.recall, score.f1), strict=True))


def _labeller(question: Question, retrieved: Sequence[Document], requirements: Labeller | str) -> Labeller:
    if callable(requirements):
        return requirements
    if requirements == "rules":
        return rule_requirements
    facts = set(question.supporting_facts or ())
    return OracleLabeller(
        [
            (document.name, span)
            for document in retrieved
            for number, span in enumerate(document.sentences)
            if (document.title, number) in facts
        ]
    )


def _named(labeller: Labeller) -> str:
    return getattr(labeller, "__name__", type(labeller).__name__)


def _budgets(budgets: int | Sequence[int | None] | None) -> Iterator[int | None]:
    for budget in budgets if isinstance(budgets, Sequence) else [budgets]:
        yield None if budget is None else gate.integer("budget", budget, low=0)


def _merged(runs: Sequence[str | Path]) -> dict[str, tuple[str, ...]] | None:
    merged: dict[str, tuple[str, ...]] = {}
    for path in runs:
        run = read_run(path)
        for question in run.keys() & merged.keys():
            raise RecordError(str(path), 0, f"expected questions that no other run has, got {question!r} again")
        merged.update(run)
    return merged if runs else None


def evidence_problems(
    paths: str | Path | Sequence[str | Path],
    *,
    candidates: str = "sentences",
    max_passages: int = 5,
    budget: int | None = None,
    requirements: Labeller | str = "rules",
    retriever: str = "none",
    top_k: int | None = None,
    limit: int | None = None,
) -> list[EvidenceProblem]:
    """The problem that the policy qubo solves for each question of some files; parameters as for `evaluate`."""
    problems = []
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        questions = read_questions(path, limit=limit).questions
        retrieve = by_retriever(questions, retriever, pool="own", top_k=top_k)
        for question in questions:
            retrieved = retrieve(question)
            pool = prepare(question.question, as_retrieved(retrieved), candidates=candidates, render="titled")
            labels = _labeller(question, retrieved, requirements)(pool)
            problems.append(evidence_problem(pool, labels, budget=budget, max_passages=max_passages))
    return problems
