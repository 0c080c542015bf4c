"""An experiment from one file: data, samples, retrievers, policies and budgets in, one table out."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from difflib import get_close_matches
from multiprocessing import get_context
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, NamedTuple

import numpy as np

from isinglass import backends
from isinglass.diagnosis.scoring import RULES
from isinglass.diagnosis.trace import append_line, text_hash
from isinglass.experiments.answers import ANY, MADE_OF_OTHERS, Answers, with_answers, with_oracle, with_router
from isinglass.experiments.corpus import Document
from isinglass.experiments.datasets import Question, oddities, read_questions
from isinglass.experiments.evaluation import DEPTHS, Plan, dataset_name, packed
from isinglass.experiments.retrieval import POOLS, RETRIEVERS, Retrieve, by_retriever, by_run, check_retriever
from isinglass.experiments.rows import Rows
from isinglass.experiments.runs import read_run
from isinglass.experiments.variants import BestFixed, best_fixed, read_variant
from isinglass.measure.candidates import GRAINS
from isinglass.measure.pool import MEASURES, RENDERS, one_of
from isinglass.policies import POLICIES, find_policy
from isinglass.problems import gate
from isinglass.records import RecordError, read_records, skipped_fields
from isinglass.version import __version__


@dataclass(frozen=True)
class Retriever:
    """One level of the factor of retrieval; see `isinglass.experiments.retrieval.by_retriever`.

    Attributes
    ----------
    name : str
        In the table.
    index : str
        "bm25", "tfidf", "cosine", "embed" or "none"; not asked where there is a run.
    run : str or None
        A retrieval run to take instead.
    top_k : int
    graph : str or None
    nodes : int
    truncate_dim : int or None
    """

    name: str
    index: str = "bm25"
    run: str | None = None
    top_k: int = 5
    graph: str | None = None
    nodes: int = 48
    truncate_dim: int | None = None


@dataclass(frozen=True)
class Experiment:
    """What an experiment varies, and what it holds fixed.

    Attributes
    ----------
    files : tuple of str
        Question files; the name of a data set is the file's, up to the first dot.
    policies : tuple of str
    budgets : tuple of int
    retrievers : tuple of Retriever
    seeds : tuple of int
        Each draws a sample of the questions of every file, and with them the pool that is retrieved from.
    sample : int or None
        Questions drawn from each file; None: all, in file order, and then one seed is all there is.
    pool : {"file", "own"}
        Paragraphs of the sample, or each question's own.
    measure, candidates, backend
        As for `isinglass.experiments.evaluation.evaluate`.
    render, max_passages, requirements
        As for `evaluate`; requirements by "rules" or "oracle".
    variants : tuple of dict
        Further policies: `name`, `policy` (default qubo) and its options, for qubo among them `preset`, `max_items` and
        tables of `weights` and `penalties`; see `isinglass.experiments.variants`.
    embed : str or None
        MODULE:FUNCTION for retrievers with ``index = "embed"``.
    facts : bool
        Also measure the facts of long answers.
    answers : tuple of str
        Files of a reader's answers, see `isinglass.experiments.answers`.
    rule : str
        By which predictions are scored.
    oracle, router : bool
        Add rows of the best policy a question, and of a policy chosen by features of retrieval.
    baselines : tuple of str
        Policies that the others are compared with; see `isinglass.experiments.findings`.
    """

    files: tuple[str, ...]
    policies: tuple[str, ...]
    budgets: tuple[int, ...]
    retrievers: tuple[Retriever, ...] = (Retriever("bm25"),)
    seeds: tuple[int, ...] = (0,)
    sample: int | None = None
    pool: str = "own"
    measure: str = "default"
    candidates: str | None = None
    backend: str = "auto"
    embed: str | None = None
    render: str | None = None
    max_passages: int | None = None
    requirements: str = "rules"
    variants: tuple[Mapping[str, Any], ...] = ()
    facts: bool = False
    answers: tuple[str, ...] = ()
    rule: str = "hotpotqa"
    oracle: bool = False
    router: bool = False
    baselines: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """SHA-256 of the configuration: in every output."""
        return text_hash(json.dumps(_plain(self), sort_keys=True))


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file; paths in it are relative to its folder, and `$NAME` is replaced.

    Raises
    ------
    ValueError
        For an unknown key, a value of another kind, a name that does not exist, or a variable that is not set.
    OSError
        If the file cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            given = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: expected TOML, got {error}") from None
    folder = Path(path).parent

    def place(text: str) -> str:
        expanded = os.path.expandvars(text)
        if "$" in expanded:
            raise ValueError(f"{path}: expected a variable that is set, got {text!r}")
        return str(folder / expanded)

    known = {field.name for field in fields(Experiment)}
    _refuse_unknown(given, known, str(path))
    for name in ("files", "policies", "budgets"):
        if not given.get(name):
            raise ValueError(f"{path}: {name} must name at least one, got {given.get(name)!r}")
    values: dict[str, Any] = dict(given)
    for name in ("files", "answers"):
        values[name] = tuple(place(text) for text in _listed(given.get(name, ()), str, f"{path}: {name}"))
    values["policies"] = tuple(find_policy(name).name for name in _listed(given["policies"], str, f"{path}: policies"))
    values["budgets"] = tuple(
        gate.integer("budgets", b, low=0) for b in _listed(given["budgets"], int, f"{path}: budgets")
    )
    values["variants"] = tuple(_listed(given.get("variants", ()), dict, f"{path}: variants"))
    values["baselines"] = tuple(_listed(given.get("baselines", ()), str, f"{path}: baselines"))
    values["seeds"] = tuple(_listed(given.get("seeds", [0]), int, f"{path}: seeds"))
    levels = _listed(given.get("retrievers", [{"name": "bm25"}]), dict, f"{path}: retrievers")
    values["retrievers"] = tuple(_retriever(level, place, str(path)) for level in levels)
    _refuse_other_kinds(Experiment, given, f"{path}: ")
    experiment = Experiment(**values)
    _check(experiment)
    return experiment


def _retriever(given: Any, place: Callable[[str], str], path: str) -> Retriever:
    if not isinstance(given.get("name"), str):
        raise ValueError(f"{path}: a retriever must be a table with a name, got {given!r}")
    where = f"{path}, retriever {given['name']!r}"
    _refuse_unknown(given, {field.name for field in fields(Retriever)}, where)
    _refuse_other_kinds(Retriever, given, f"{where}: ")
    return Retriever(**{**given, "run": place(given["run"]) if "run" in given else None})


def _refuse_other_kinds(of: type[Experiment | Retriever], given: Mapping[str, Any], where: str) -> None:
    """The kind of every value that is no list, by the annotation of its field."""
    for field in fields(of):
        kind = _KINDS.get(str(field.type).removesuffix(" | None"))
        if kind is not None and field.name in given and type(given[field.name]) is not kind[0]:
            raise ValueError(f"{where}{field.name} must be {kind[1]}, got {given[field.name]!r}")


_KINDS = {"str": (str, "a string"), "int": (int, "an integer"), "bool": (bool, "true or false")}


def _check(experiment: Experiment) -> None:
    one_of("measure", experiment.measure, tuple(MEASURES))
    one_of("pool", experiment.pool, POOLS)
    for name in ("seeds", "retrievers"):
        if not getattr(experiment, name):
            raise ValueError(f"{name} must name at least one, got none")
    for seed in experiment.seeds:
        gate.integer("seeds", seed, low=0)
    if len(set(experiment.seeds)) < len(experiment.seeds):
        raise ValueError(f"seeds must differ: the same draws the same questions again, got {list(experiment.seeds)}")
    if experiment.sample is not None:
        gate.integer("sample", experiment.sample, low=1)
    if experiment.backend != "auto":
        backends.load(experiment.backend)
    for level in experiment.retrievers:
        one_of("index", level.index, RETRIEVERS)
        if level.run is None:
            check_retriever(level.index, pool=experiment.pool, graph=level.graph, embeds=experiment.embed is not None)
        gate.integer("top_k", level.top_k, low=1)
        gate.integer("nodes", level.nodes, low=0)
        if level.truncate_dim is not None:
            gate.integer("truncate_dim", level.truncate_dim, low=1)
        if level.name == ANY:
            raise ValueError(f"a retriever must not be called {ANY!r}: so are rows that are made of several")
    one_of("rule", experiment.rule, tuple(RULES))
    if experiment.candidates is not None:
        one_of("candidates", experiment.candidates, GRAINS)
    if experiment.render is not None:
        one_of("render", experiment.render, RENDERS)
    if experiment.max_passages is not None:
        gate.integer("max_passages", experiment.max_passages, low=1)
    one_of("requirements", experiment.requirements, ("rules", "oracle"))
    names = [read_variant(table)[0] for table in experiment.variants]
    if len(set(names)) < len(names) or set(names) & set(POLICIES):
        raise ValueError(f"variants must have names of their own, got {names}")
    if experiment.sample is None and len(experiment.seeds) > 1:
        raise ValueError(f"several seeds need a sample: without one each draws all questions, got {experiment.seeds}")
    for baseline in experiment.baselines:
        one_of("baselines", baseline, (*experiment.policies, *names))
    names = [level.name for level in experiment.retrievers]
    if len(set(names)) < len(names):
        raise ValueError(f"retrievers must have names of their own, got {names}")
    if experiment.oracle and not experiment.answers:
        raise ValueError("oracle needs answers: it is the best policy by the F1 of a reader")


def _listed(value: Any, kind: type, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not all(type(item) is kind for item in value):
        raise ValueError(f"{where} must be a list of {kind.__name__}, got {value!r}")
    return list(value)


def _refuse_unknown(given: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(given.keys() - known):
        near = get_close_matches(unknown[0], known, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"{where}: expected the keys {', '.join(sorted(known))}, got {', '.join(unknown)}{hint}")


class Outcome(NamedTuple):
    """What an experiment gave.

    Attributes
    ----------
    experiment : Experiment
    rows : Rows
        One row a data set, seed, retriever, question, policy and budget (and reader, where there are answers), with
        every measure of `isinglass.diagnose` and the features of retrieval.
    failed : tuple of str
        The questions that could not be processed, with the reason.
    skipped : tuple of RecordError
        Records of the files that could not be read.
    distinct : dict of str to int
        Distinct questions of each data set over all seeds: the n that inference has.
    oddities : dict of str to dict of str to int
        Of the distinct questions of each data set; see `isinglass.experiments.datasets.oddities`.
    resumed : int
        Questions that the journal had already.
    packed : int
        Rows before any reader.
    answered : dict of str to int
        How many of them each reader answered.
    unused : int
        Answers that agree with none of them.
    """

    experiment: Experiment
    rows: Rows
    failed: tuple[str, ...]
    skipped: tuple[RecordError, ...]
    distinct: dict[str, int]
    oddities: dict[str, dict[str, int]]
    resumed: int
    packed: int
    answered: dict[str, int]
    unused: int

    def means(self) -> list[dict[str, Any]]:
        """The mean of every measure, where it is defined, over questions and seeds: one dict for each data set, budget,
        retriever, policy and reader."""
        rows = self.rows
        by = [name for name in ("dataset", "budget", "reader", "retriever", "policy") if name in rows]
        group = rows.keys(by)
        means = []
        for number in dict.fromkeys(group.tolist()):
            of_one = rows.take(group == number)
            mean: dict[str, Any] = {name: of_one[name][0] for name in by} | {"rows": len(of_one)}
            for name, values in of_one.columns.items():
                if values.dtype != object and name not in (*by, "seed"):
                    known = values[~np.isnan(values)]
                    mean[name] = float(known.mean()) if len(known) else None
            means.append(mean)
        return means

    def best_variant(self) -> BestFixed | None:
        """The variant with the best mean fact F1 (answer in context, where no facts are labelled) on half of the
        questions, and its mean on the other half; None without variants. See `best_fixed` for the rule."""
        if not len(self.rows):
            return None
        policy = self.rows["policy"]
        names = [read_variant(table)[0] for table in self.experiment.variants]
        names = [name for name in names if (policy == name).any()]
        if not names:
            return None
        measure = "supporting_fact_f1" if "supporting_fact_f1" in self.rows else "answer_in_context"
        values = {name: self.rows[measure][policy == name] for name in names}
        return best_fixed(self.rows["question"][policy == names[0]].tolist(), values)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        best = self.best_variant()
        return {
            "config": self.experiment.hash,
            "settings": _plain(self.experiment),
            "questions": self.distinct,
            "oddities": self.oddities,
            "rows": len(self.rows),
            "resumed": self.resumed,
            "packed": self.packed,
            "answered": self.answered,
            "unused_answers": self.unused,
            "failed": list(self.failed),
            **skipped_fields(self.skipped),
            "undefined": {
                name: int(np.isnan(values).sum())
                for name, values in self.rows.columns.items()
                if values.dtype != object
            },
            "means": self.means(),
            "best_variant": None if best is None else {"name": best.name, "dev": best.dev, "test": best.test._asdict()},
        }


class _Task(NamedTuple):
    key: tuple[str, int, str, str]
    question: Question
    retrieved: list[Document]
    depths: tuple[int, ...]
    facts: bool
    plan: Plan


def run_experiment(
    experiment: Experiment,
    journal: str | Path | None = None,
    *,
    keep_going: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Run an experiment, or what is left of it.

    Parameters
    ----------
    experiment : Experiment
    journal : path, optional
        A file that gets one line a finished question. Lines of the same configuration and data are not computed again.
    keep_going : bool
        Pass over records and questions that fail.
    workers : int
        Processes that pack; 1: this one.
    executor : concurrent.futures.Executor, optional
        Packs instead (Dask, MPI, ...).
    progress : callable, optional
        Called with (questions done, questions in all).

    Returns
    -------
    Outcome

    Raises
    ------
    RecordError, ValueError
        At the first faulty record or question without `keep_going`; for answers that answer nothing.
    ChildProcessError
        If a process of our own ends abruptly; the journal has what was finished.
    """
    # What can be wrong with these is told before the work, not after it.
    packing = _packing_hashes(experiment)
    answers = Answers.read(experiment.answers) if experiment.answers else None
    if experiment.embed is not None:
        _function(experiment.embed)
    done = _journalled(journal, packing)
    resumed = 0
    results: dict[tuple[str, int, str, str], list[dict[str, Any]] | str] = {}
    skipped: list[RecordError] = []
    distinct: dict[str, dict[str, Question]] = {}
    order: list[tuple[str, int, str, str]] = []
    samples = []
    for path in experiment.files:
        questions, faults = read_questions(path, keep_going=keep_going)
        skipped.extend(faults)
        dataset = dataset_name(path)
        if dataset in distinct:
            raise ValueError(f"files must have names of their own, got {dataset!r} twice")
        distinct[dataset] = {}
        for seed in experiment.seeds:
            drawn = _sample(questions, experiment.sample, seed)
            distinct[dataset].update((question.id, question) for question in drawn)
            samples.append((dataset, seed, drawn, questions))
    total = sum(len(drawn) for _, _, drawn, _ in samples) * len(experiment.retrievers)

    def tasks() -> Iterator[_Task]:
        nonlocal resumed
        variants = dict(read_variant(table) for table in experiment.variants)
        plan = Plan(
            (*experiment.policies, *variants), experiment.budgets, experiment.measure, experiment.candidates, None,
            experiment.backend, None, experiment.render, experiment.max_passages, experiment.requirements, variants,
        )  # fmt: skip
        for dataset, seed, drawn, questions in samples:
            for level in experiment.retrievers:
                retrieve: Retrieve | None = None
                for question in drawn:
                    key = (dataset, seed, level.name, question.id)
                    order.append(key)
                    if key in done:
                        results[key] = done[key]
                        resumed += 1
                        continue
                    retrieve = retrieve or _retrieve(experiment, level, drawn, questions)
                    try:
                        retrieved = retrieve(question)
                    except (ValueError, KeyError) as error:
                        results[key] = _fault(key, error, keep_going)
                        continue
                    yield _Task(key, question, retrieved, (*DEPTHS, level.top_k), experiment.facts, plan)

    def finish(key: tuple[str, int, str, str], rows: list[dict[str, Any]] | ValueError) -> None:
        if isinstance(rows, ValueError):
            results[key] = _fault(key, rows, keep_going)
        else:
            results[key] = rows
            if journal is not None:
                append_line(journal, json.dumps({"config": packing[key[2]], "key": key, "rows": rows}))
        if progress is not None:
            progress(len(results), total)

    with nullcontext(executor) if executor is not None or workers == 1 else _processes(workers) as packer:
        for key, rows in _packed(tasks(), packer, workers):
            finish(key, rows)
    if progress is not None:
        progress(len(results), total)
    table = Rows.of(row for key in order if not isinstance(found := results[key], str) for row in found)
    golds = {(dataset, question.id): question.answers for dataset, _, drawn, _ in samples for question in drawn}
    completed = _completed(experiment, table, answers, golds)
    failed = tuple(found for key in order if isinstance(found := results[key], str))
    counts = {name: len(held) for name, held in distinct.items()}
    odd = {name: oddities(held.values()) for name, held in distinct.items()}
    answered: Counter[str] = Counter()
    if answers is not None and len(completed):
        own = ~np.isin(completed["policy"], np.array(MADE_OF_OTHERS, dtype=object))
        answered.update(completed["reader"][own].tolist())
    unused = 0 if answers is None else answers.unused
    return Outcome(
        experiment, completed, failed, tuple(skipped), counts, odd, resumed, len(table), dict(answered), unused
    )


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Processes of our own. Ctrl-C is ours to answer: they ignore it, and so do we while they end."""
    ignore = (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=signal.signal, initargs=ignore)
    try:
        yield pool
    except BrokenExecutor as error:
        raise ChildProcessError(
            f"expected {workers} processes to live, got one that ended abruptly (killed, or out of memory); "
            "what was finished is in the journal"
        ) from error
    finally:
        in_main = current_thread() is main_thread()
        before = signal.signal(*ignore) if in_main else None
        pool.shutdown(cancel_futures=True)
        if in_main:
            signal.signal(signal.SIGINT, before)


def _completed(
    experiment: Experiment, rows: Rows, answers: Answers | None, golds: Mapping[tuple[str, str], Sequence[str]]
) -> Rows:
    """With answers, and the policies that are made of others."""
    if not len(rows):
        return rows
    if answers is not None:
        rows = with_answers(rows, answers, golds, experiment.rule)
    if experiment.router:
        rows = with_router(rows, "f1" if answers is not None else "answer_in_context_p1")
    if experiment.oracle:
        rows = with_oracle(rows)
    return Rows({**rows.columns, "config": [experiment.hash] * len(rows)})


def _packed(
    tasks: Iterator[_Task], executor: Executor | None, workers: int
) -> Iterator[tuple[tuple[str, int, str, str], list[dict[str, Any]] | ValueError]]:
    if executor is None:
        for task in tasks:
            yield task.key, _pack(task)
        return
    running: dict[Future[list[dict[str, Any]] | ValueError], tuple[str, int, str, str]] = {}
    exhausted = False
    while running or not exhausted:
        # A few tasks ahead of the workers: retrieval goes on while they pack, and little waits in memory.
        while not exhausted and len(running) < 4 * workers + 4:
            upcoming = next(tasks, None)
            if upcoming is None:
                exhausted = True
            else:
                running[executor.submit(_pack, upcoming)] = upcoming.key
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


def _pack(task: _Task) -> list[dict[str, Any]] | ValueError:
    """The rows of one question under one retriever, or the error: it must travel between processes as a value."""
    dataset, seed, retriever, _ = task.key
    level = {"dataset": dataset, "seed": seed, "retriever": retriever}
    try:
        made = packed(task.question, task.retrieved, task.plan, sorted(set(task.depths)), facts=task.facts)
        return [level | row for row, _, _ in made]
    except ValueError as error:
        return error


def _retrieve(
    experiment: Experiment, level: Retriever, drawn: Sequence[Question], questions: Sequence[Question]
) -> Retrieve:
    published = MEASURES[experiment.measure].published
    if level.run is not None:
        run = read_run(level.run)
        missing = [question.id for question in drawn if question.id not in run]
        if missing:
            raise ValueError(f"{level.run}: expected a list for every question, got none for {missing[0]!r}")
        return by_run(run, questions, pool=None, top_k=level.top_k, published=published)
    embed = None if experiment.embed is None else _function(experiment.embed)
    return by_retriever(
        drawn, level.index, pool=experiment.pool, top_k=level.top_k, published=published, embed=embed,
        truncate_dim=level.truncate_dim, graph=level.graph, nodes=level.nodes,
    )  # fmt: skip


def _sample(questions: Sequence[Question], size: int | None, seed: int) -> list[Question]:
    """In file order; all where there are no more."""
    if size is None or size >= len(questions):
        return list(questions)
    chosen = np.random.default_rng(seed).choice(len(questions), size=size, replace=False)
    return [questions[i] for i in sorted(chosen.tolist())]


def _fault(key: tuple[str, int, str, str], error: Exception, keep_going: bool) -> str:
    dataset, seed, retriever, question = key
    reason = f"{dataset}, seed {seed}, {retriever}, question {question!r}: {error}"
    if not keep_going:
        raise ValueError(reason) from error
    return reason


def _packing_hashes(experiment: Experiment) -> dict[str, str]:
    """For each retriever, of what its packed rows depend on, contents of files and our version included. Another
    retriever beside it changes nothing of them, nor do the answers, which come later."""
    plain = _plain(experiment)
    for name in ("answers", "rule", "oracle", "router", "baselines", "retrievers"):
        del plain[name]
    files = [_file_hash(path) for path in experiment.files]
    hashes = {}
    for level in experiment.retrievers:
        run = None if level.run is None else _file_hash(level.run)
        own = vars(level) | {"run": run}
        hashes[level.name] = text_hash(json.dumps([__version__, plain, own, files], sort_keys=True))
    return hashes


def _file_hash(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(experiment: Experiment) -> dict[str, Any]:
    """For a hash: file names without their folders, which differ between machines."""
    plain = {**vars(experiment), "retrievers": [dict(vars(level)) for level in experiment.retrievers]}
    for name in ("files", "answers"):
        plain[name] = [Path(path).name for path in plain[name]]
    for level in plain["retrievers"]:
        level["run"] = None if level["run"] is None else Path(level["run"]).name
    return plain


def _journalled(
    journal: str | Path | None, packing: Mapping[str, str]
) -> dict[tuple[str, int, str, str], list[dict[str, Any]]]:
    if journal is None or not Path(journal).exists():
        return {}
    held: dict[tuple[str, int, str, str], list[dict[str, Any]]] = {}
    known = set(packing.values())
    for _, record in read_records(journal):
        # A line that a crash cut short is computed again.
        if isinstance(record, dict) and record.get("config") in known:
            dataset, seed, retriever, question = record["key"]
            held[dataset, seed, retriever, question] = record["rows"]
    return held


def _function(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    if "" not in sys.path:  # an installed command does not look in the folder that it is called from
        sys.path.insert(0, "")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"embed must be MODULE:FUNCTION, got {text!r}: {error}") from None
    return found
