"""The command line: parses, calls the API, prints."""

import argparse
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from isinglass import console

DONE, PARTLY, STOPPED = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        0: everything was processed. 1: some records failed under ``--keep-going``, or there was nothing to do.
        2: stopped, with the reason on standard error.
    """
    try:
        args = _parse(list(sys.argv[1:] if argv is None else argv))
    except SystemExit as stop:  # argparse ends the process for --help and misuse; a caller of main wants the code
        return stop.code if isinstance(stop.code, int) else DONE
    try:
        code: int = args.execute(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has gone, as in `isinglass ... | head`
        console.drop_output()
        return STOPPED
    except KeyboardInterrupt:
        return _stopped(args.command, "interrupted")
    except OSError as error:
        return _stopped(args.command, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (ValueError, ImportError, MemoryError) as error:
        return _stopped(args.command, str(error))


def _stopped(command: str, reason: str) -> int:
    console.note(f"isinglass {command}: error: {reason}")
    return STOPPED


class _Parser(argparse.ArgumentParser):
    """Takes no abbreviations, and names the nearest option for one that it does not know."""

    def __init__(self, **settings: Any) -> None:
        self.known: list[str] = []
        super().__init__(allow_abbrev=False, **settings)

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        self.known += [name for name in names if name.startswith("-")]
        return super().add_argument(*names, **settings)

    def refuse_unknown(self, arguments: Sequence[str]) -> None:
        """Stop at an option that is not ours, before argparse blames a word beside it."""
        for argument in arguments:
            if argument == "--":
                return
            option = argument.partition("=")[0]
            if option.startswith("--") and option not in self.known:
                self.error(f"unknown option {option}{_near(option, self.known)}")


def _near(word: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(word, known, 1)
    return f", did you mean {nearest[0]}?" if nearest else ""


class _Command(NamedTuple):
    help: str
    add_options: Callable[[_Parser], None]
    execute: Callable[[argparse.Namespace], int]


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    from isinglass.version import __version__

    parser = _Parser(prog="isinglass", description="Pick the passages that serve a reader best under a token budget.")
    parser.add_argument("--version", action="version", version=f"isinglass {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parsers = {}
    for name, command in COMMANDS.items():
        parsers[name] = commands.add_parser(name, help=command.help, description=f"{command.help}.")
        command.add_options(parsers[name])
        parsers[name].set_defaults(execute=command.execute)
    if not arguments:
        parser.print_help(sys.stderr)
        parser.exit(STOPPED)
    first, *rest = arguments
    if first in parsers:
        parsers[first].refuse_unknown(rest)
    elif first.startswith("-"):
        parser.refuse_unknown([first])
    else:
        parser.error(f"unknown command {first}{_near(first, list(parsers))} (commands: {', '.join(parsers)})")
    args = parser.parse_args(arguments)
    args.typed = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return args


def _add_output(parser: _Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("-o", "--output", metavar="OUT", type=_output, help="write JSON to this file")


def _add_trace(parser: _Parser) -> None:
    parser.add_argument("--trace", metavar="TRACE", type=_output, help="add a JSON line a selection to this file")


def _emit(args: argparse.Namespace, value: Any, show: Callable[[], None]) -> None:
    if args.output is not None:
        console.write_json(args.output, value)
    if args.json:
        console.print_json(value)
    elif args.output is None:
        show()


def _output(text: str) -> Path:
    # Asked for before the work is done: an hour of packing should not end at a folder that is not there.
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in an existing folder, got {text!r}")
    return path


def _table(text: str) -> Path:
    from isinglass.experiments.rows import check_name

    try:
        check_name(text)
    except (ValueError, ImportError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return _output(text)


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"expected words with a comma between them, got {text!r}")
    return words


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer >= 0, got {text!r}")
    return int(text)


def _counts(text: str) -> list[int]:
    return [_count(word) for word in _words(text)]


def _depth(text: str) -> int | None:
    if text == "all":
        return None
    if (depth := _count(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1 or all, got {text!r}")
    return depth


def _function(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    if not (module and name):
        raise argparse.ArgumentTypeError(f"expected MODULE:FUNCTION, got {text!r}")
    if "" not in sys.path:  # an installed command does not look in the folder that it is called from
        sys.path.insert(0, "")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"cannot import {text!r}: {error}") from None
    if not callable(function):
        raise argparse.ArgumentTypeError(f"expected a function, got {text!r}, a {type(function).__name__}")
    found: Callable[..., Any] = function
    return found


def _demo_options(parser: _Parser) -> None:
    from isinglass.demo import BUDGET

    parser.add_argument("--budget", "-b", type=_count, default=BUDGET, help="tokens that each context may take")
    parser.add_argument("--question", "-q", metavar="N", type=_count, help="only this question, in detail")
    _add_output(parser)


def _demo(args: argparse.Namespace) -> int:
    from isinglass import demo

    demonstration = demo.run(args.budget, args.question)

    def show() -> None:
        from isinglass import demo_tables

        demo_tables.show(demonstration)

    _emit(args, demonstration.as_dict(), show)
    return DONE


def _select_options(parser: _Parser) -> None:
    from isinglass.measure.candidates import GRAINS
    from isinglass.measure.pool import MEASURES, RENDERS
    from isinglass.passage_files import FORMATS
    from isinglass.policies import POLICIES
    from isinglass.selecting import ORDERS

    parser.add_argument("file", metavar="FILE", help="passages: lines of text, JSON Lines or a JSON list; - for stdin")
    parser.add_argument("--query", "-q", required=True, help="the question")
    parser.add_argument("--budget", "-b", required=True, type=_count, help="tokens that the context may take")
    parser.add_argument("--policy", metavar="NAME", help=f"one of {', '.join(POLICIES)}")
    parser.add_argument("--measure", choices=tuple(MEASURES), default="default", help="rules from texts to numbers")
    parser.add_argument("--candidates", choices=GRAINS, help="what is picked (default: by policy and measure)")
    parser.add_argument("--render", choices=RENDERS, help="whether titles are part of the context")
    parser.add_argument("--order", choices=ORDERS, help="order of the passages in the context")
    parser.add_argument("--separator", help="what stands between two passages")
    parser.add_argument("--format", choices=FORMATS, default="auto", help="how to read FILE")
    parser.add_argument("--keep-going", action="store_true", help="pass over what is faulty, and report it")
    _add_trace(parser)
    parser.add_argument("--backend", help="of a policy that solves a packing problem")
    _add_output(parser)


def _select(args: argparse.Namespace) -> int:
    from isinglass.passage_files import read_passages
    from isinglass.records import skipped_fields
    from isinglass.selecting import select

    options = {
        name: value
        for name in ("policy", "candidates", "render", "order", "separator", "backend", "trace")
        if (value := getattr(args, name)) is not None
    }
    passages, skipped = read_passages(args.file, args.format, keep_going=args.keep_going)
    for fault in skipped:
        console.note(f"skipped {fault}")
    if not passages:
        console.note("nothing to do: no passage was left to select from")
    try:
        picked = select(args.query, passages, args.budget, measure=args.measure, **options)
    except TypeError as error:  # an option that the policy does not take: our user's word, not our code
        raise ValueError(error) from error
    _emit(args, _picked(picked) | skipped_fields(skipped), lambda: print(picked.text))
    return PARTLY if skipped or not passages else DONE


def _picked(picked: Any) -> dict[str, Any]:
    fields = asdict(replace(picked, result=None))
    if (result := picked.result) is not None:
        fields["result"] = {
            "method": result.provenance["method"],
            "backend": result.provenance["backend"],
            "status": result.status,
            "objective": result.objective,
            "certificate": _plain(asdict(result.certificate)),
        }
    return fields


_EVALUATE_EPILOG = """\
columns: of the retrieved documents, recall@5 and all gold@5; of the packed context, answer p1 (the published
answer_in_context, over all questions), answer defined (over those whose answer can stand in a text), gold docs
(gold_doc_coverage), all gold (all_gold_in_context), gold tokens (gold_token_density), other docs (distractor_docs),
tokens, snippets. Of the evidence: precision, recall and F1 of the supporting facts (HotpotQA's rule; a sentence of the
file is given where half of it is in the context), then, by the requirements of the question: their weight that is
supported at all and directly, capped support, what the objective loses without a pick on average, mean relevance, and
the number of picks. Means over the questions where a measure is defined."""


def _evaluate_options(parser: _Parser) -> None:
    from isinglass.experiments.retrieval import POOLS, RETRIEVERS
    from isinglass.measure.candidates import GRAINS
    from isinglass.measure.pool import MEASURES, RENDERS
    from isinglass.policies import FREE_POLICIES

    parser.epilog = _EVALUATE_EPILOG
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="questions: isinglass, HotpotQA, 2WikiMultiHopQA or MuSiQue"
    )
    parser.add_argument(
        "--config",
        metavar="TOML",
        type=Path,
        help="run a whole experiment from this file instead (files, seeds, budgets, policies, retrievers, baselines, "
        "answers), with every statistic that its rows allow",
    )
    parser.add_argument(
        "--rows",
        metavar="TABLE",
        type=_table,
        help="write one row a question, policy and budget to this .parquet or .csv file, for `isinglass report`; "
        "with --config, a run that was stopped resumes",
    )
    parser.add_argument(
        "--answers",
        metavar="ANSWERS",
        action="append",
        help="with --rows or --advise: a reader's answers, lines with question, prediction and what they hold for",
    )
    parser.add_argument("--workers", metavar="N", type=_count, default=1, help="with --config: processes (default: 1)")
    parser.add_argument(
        "--policies", metavar="A,B", type=_words, default=",".join(FREE_POLICIES), help="(default: %(default)s)"
    )
    parser.add_argument(
        "--budget", metavar="N,M", type=_counts, help="tokens (default: 160, or no limit under --max-passages)"
    )
    parser.add_argument("--max-passages", metavar="K", type=_depth, help="at most K candidates, for every policy")
    parser.add_argument("--measure", choices=tuple(MEASURES), default="default", help="p1: exactly as published")
    parser.add_argument("--candidates", choices=GRAINS, help="what is picked (default: by policy and measure)")
    parser.add_argument("--render", choices=RENDERS, help="whether titles are part of the context (default: by policy)")
    parser.add_argument(
        "--requirements",
        metavar="CACHE",
        default="rules",
        help="what the question requires: rules (default), a file of recorded labels, or oracle (the gold facts)",
    )
    parser.add_argument("--retriever", choices=RETRIEVERS, default="bm25", help="none: every paragraph (default: bm25)")
    parser.add_argument(
        "--pool",
        choices=POOLS,
        help="from the question's own paragraphs (default) or those of all questions of its file",
    )
    parser.add_argument(
        "--top-k", metavar="K", type=_depth, default=5, help="paragraphs retrieved, or all (default: 5)"
    )
    parser.add_argument(
        "--run",
        metavar="RUN",
        dest="runs",
        type=Path,
        action="append",
        default=[],
        help="take the documents from this retrieval run, and only its questions; may be repeated",
    )
    parser.add_argument(
        "--embed",
        metavar="MODULE:FUNCTION",
        type=_function,
        help="for --retriever embed: from a list of texts to vectors",
    )
    parser.add_argument(
        "--baseline",
        metavar="POLICY",
        help="also say what the others change against it, with 95 %% bootstrap intervals",
    )
    parser.add_argument(
        "--advise",
        action="store_true",
        help="also say which policy and which budget pay on this sample, and what it cannot tell",
    )
    parser.add_argument(
        "--ablate", action="store_true", help="also the policy qubo in full, and without each term of its objective"
    )
    parser.add_argument(
        "--solvers",
        metavar="A,B",
        type=_words,
        help="instead compare solvers on the problems of the policy qubo: BACKEND:METHOD, or a foreign back end alone",
    )
    parser.add_argument("--figure", metavar="OUT", type=_output, help="with --solvers: draw latency and optima found")
    parser.add_argument("--limit", metavar="N", type=_count, help="only the first N questions of each file")
    parser.add_argument("--backend", default="auto", help="of policies that solve a packing problem")
    parser.add_argument("--keep-going", action="store_true", help="pass over what is faulty, and report it")
    _add_trace(parser)
    parser.add_argument(
        "--trace-text", action="store_true", help="with --trace: also the texts and the gold answers, for reports"
    )
    _add_output(parser)


_COLUMNS = (
    ("recall\n@5", "recall@5", 4),
    ("all\ngold@5", "all_gold@5", 4),
    ("answer\np1", "answer_in_context.p1", 4),
    ("answer\ndefined", "answer_in_context.defined", 4),
    ("gold\ndocs", "gold_doc_coverage", 4),
    ("all\ngold", "all_gold_in_context", 4),
    ("gold\ntokens", "gold_token_density", 4),
    ("other\ndocs", "distractor_docs", 2),
    ("tokens", "tokens", 1),
    ("snip-\npets", "snippets", 2),
)
_EVIDENCE_COLUMNS = (
    ("fact\nprec.", "supporting_fact_precision", 4),
    ("fact\nrecall", "supporting_fact_recall", 4),
    ("fact\nF1", "supporting_fact_f1", 4),
    ("cover-\nage", "weighted_coverage", 4),
    ("cover.\ndirect", "direct_coverage", 4),
    ("capped\nsupport", "capped_support", 4),
    ("utility", "marginal_utility", 2),
    ("rele-\nvance", "average_relevance", 4),
    ("size", "size", 2),
)


def _evaluate(args: argparse.Namespace) -> int:
    from isinglass.diagnosis import Trace
    from isinglass.experiments.advice import advise
    from isinglass.experiments.answers import Answers, with_answers
    from isinglass.experiments.evaluation import evaluate
    from isinglass.experiments.variants import ablations

    if args.config is not None:
        return _experiment(args)
    if not args.files:
        raise ValueError("expected question files, or --config")
    if "--workers" in args.typed:
        raise ValueError("--workers belongs to --config")
    if args.solvers is not None:
        return _compare_solvers(args)
    if args.figure is not None:
        raise ValueError("--figure belongs to --solvers")
    if args.trace_text and args.trace is None:
        raise ValueError("--trace-text belongs to --trace")
    if args.answers and args.rows is None and not args.advise:
        raise ValueError("--answers belongs to --rows or --advise")
    answers = Answers.read(args.answers) if args.answers else None
    variants = ablations() if args.ablate else {}
    if args.baseline is not None and args.baseline not in (*args.policies, *variants):
        raise ValueError(f"--baseline must be one of --policies ({', '.join(args.policies)}), got {args.baseline!r}")
    budgets = args.budget or [160 if args.max_passages is None else None]
    with console.Progress("questions") as progress:
        evaluation = evaluate(
            args.files,
            policies=args.policies,
            budgets=budgets,
            measure=args.measure,
            candidates=args.candidates,
            render=args.render,
            max_passages=args.max_passages,
            requirements=_requirements(args),
            variants=variants,
            retriever=args.retriever,
            pool=args.pool,
            top_k=args.top_k,
            runs=args.runs,
            embed=args.embed,
            backend=args.backend,
            keep_going=args.keep_going,
            limit=args.limit,
            trace=None if args.trace is None else Trace(args.trace, text=args.trace_text),
            progress=progress,
        )
    rows = evaluation.table
    if answers is not None and evaluation.ids:
        rows = with_answers(rows, answers, evaluation.golds)
    advised = advise(rows) if args.advise and evaluation.ids else ()
    if args.rows is not None:
        rows.write(args.rows)
    for fault in evaluation.skipped:
        console.note(f"skipped {fault}")
    if evaluation.not_in_run:
        console.note(f"not evaluated, since no run lists them: {evaluation.not_in_run} questions")
    if evaluation.not_in_files:
        console.note(f"not evaluated, since no file holds them: {evaluation.not_in_files} questions of the runs")
    if not evaluation.ids:
        console.note("nothing to do: no question was left to evaluate")

    def show() -> None:
        questions = f"{len(evaluation.ids)} questions, {len(evaluation.skipped)} skipped"
        for budget in evaluation.settings["budgets"] if evaluation.ids else ():
            limit = _limit(budget, evaluation.settings, f" {evaluation.settings['counter']}")
            _show_means(f"{limit}; {questions}", evaluation, budget, _COLUMNS)
            title = f"evidence, {limit}; requirements by {evaluation.settings['requirements']}"
            _show_means(title, evaluation, budget, _EVIDENCE_COLUMNS)
        _show_oddities("", evaluation.oddities)
        if args.baseline is not None and evaluation.ids:
            _show_differences(evaluation, args.baseline)
        for advice in advised:
            _show_advice(advice)

    told = {"advice": [advice.as_dict() for advice in advised]} if args.advise else {}
    _emit(args, evaluation.as_dict(args.baseline) | told, show)
    return PARTLY if evaluation.skipped or not evaluation.ids else DONE


_EXPERIMENT_COLUMNS = (
    ("recall\n@5", "recall@5", 4),
    ("answer\np1", "answer_in_context_p1", 4),
    ("answer\ndefined", "answer_in_context", 4),
    ("gold\ndocs", "gold_doc_coverage", 4),
    ("all\ngold", "all_gold_in_context", 4),
    ("tokens", "tokens", 1),
    ("F1", "f1", 3),
)


_BESIDE_CONFIG = ("--config", "--rows", "--workers", "--advise", "--keep-going", "--json", "--output")


def _experiment(args: argparse.Namespace) -> int:
    from isinglass.experiments.advice import advise
    from isinglass.experiments.factorial import read_experiment, run_experiment
    from isinglass.experiments.findings import findings, plain

    beside = [option for option in args.typed if option not in _BESIDE_CONFIG]
    if args.files or beside:
        raise ValueError(f"--config says it in the file, got {[*args.files, *beside][0]} besides")
    experiment = read_experiment(args.config)
    journal = None if args.rows is None else args.rows.with_name(f"{args.rows.name}.journal")
    with console.Progress("questions") as progress:
        outcome = run_experiment(
            experiment, journal, keep_going=args.keep_going, workers=max(1, args.workers), progress=progress
        )
    with console.Progress("statistics") as progress:
        tables = findings(outcome.rows, experiment.baselines, progress=progress)
    for fault in (*outcome.skipped, *outcome.failed):
        console.note(f"skipped {fault}")
    for reader, answered in outcome.answered.items():
        if answered < outcome.packed:
            console.note(f"{reader} answered {answered:,} of {outcome.packed:,} rows: its figures are of these alone")
    if outcome.unused:
        console.note(f"answers that agree with no row: {outcome.unused:,}")
    if outcome.resumed:
        console.note(f"taken from {journal}: {outcome.resumed} questions")
    if args.rows is not None:
        outcome.rows.write(args.rows)
    advised = advise(outcome.rows) if args.advise and len(outcome.rows) else ()

    def show() -> None:
        means = outcome.means()
        for dataset, budget in dict.fromkeys((mean["dataset"], mean["budget"]) for mean in means):
            rows = [
                [" ".join(str(mean[name]) for name in ("reader", "retriever", "policy") if name in mean)]
                + [_figure(mean.get(name), digits) for _, name, digits in _EXPERIMENT_COLUMNS]
                for mean in means
                if (mean["dataset"], mean["budget"]) == (dataset, budget)
            ]
            title = f"{dataset}, budget {budget:.0f}; {outcome.distinct[dataset]} distinct questions"
            console.print_table(title, ["", *(title for title, _, _ in _EXPERIMENT_COLUMNS)], rows)
        for table in tables:
            _show_finding(table)
        for advice in advised:
            _show_advice(advice)
        for dataset, counts in outcome.oddities.items():
            _show_oddities(f"{dataset}: ", counts)
        if (best := outcome.best_variant()) is not None:
            print(f"best variant on half of the questions: {best.name}; on the other half {_interval(best.test, 4)}")
        print(f"configuration {experiment.hash[:16]}")

    told = {"advice": [advice.as_dict() for advice in advised]} if args.advise else {}
    _emit(args, outcome.as_dict() | {"statistics": plain(tables)} | told, show)
    return PARTLY if outcome.skipped or outcome.failed or not len(outcome.rows) else DONE


def _requirements(args: argparse.Namespace) -> Any:
    from isinglass.measure.requirements import RequirementCache

    if args.requirements in ("rules", "oracle"):
        return args.requirements
    return RequirementCache.read(args.requirements, keep_going=args.keep_going)


_SOLVER_COLUMNS = (
    ("optimal\n%", "optimal", 100, 1),
    ("proved\n%", "proved", 100, 1),
    ("feasible\n%", "feasible", 100, 1),
    ("gap %\nmean", "gap_mean", 100, 3),
    ("gap %\nmax", "gap_max", 100, 2),
    ("ms\np50", "p50", 1, 3),
    ("ms\np95", "p95", 1, 3),
    ("ms\np99", "p99", 1, 3),
)


def _compare_solvers(args: argparse.Namespace) -> int:
    from isinglass.experiments.evaluation import evidence_problems
    from isinglass.experiments.solvers import compare_solvers, parse_solver

    for solver in args.solvers:
        parse_solver(solver)
    if args.budget is not None and len(args.budget) > 1:
        raise ValueError(f"--solvers takes one budget, got {args.budget}")
    problems = evidence_problems(
        args.files,
        candidates=args.candidates or "sentences",
        max_passages=args.max_passages or 5,
        budget=args.budget[0] if args.budget else None,
        requirements=_requirements(args),
        retriever=args.retriever,
        top_k=args.top_k,
        limit=args.limit,
    )
    if not problems:
        console.note("nothing to do: no question was left to evaluate")
        return PARTLY
    with console.Progress("calls") as progress:
        compared = compare_solvers(problems, args.solvers, progress=progress)
    if args.figure is not None:
        compared.plot(args.figure)

    def show() -> None:
        rows = [
            [row.solver, *(f"{scale * getattr(row, name):.{digits}f}" for _, name, scale, digits in _SOLVER_COLUMNS)]
            for row in compared.comparisons
        ]
        title = f"{compared.problems} problems, {compared.references} with a proved optimum"
        console.print_table(title, ["solver", *(title for title, *_ in _SOLVER_COLUMNS)], rows)

    _emit(args, compared.as_dict(), show)
    return DONE


def _limit(budget: int | None, settings: Any, unit: str = "") -> str:
    parts = [] if budget is None else [f"budget {budget}{unit}"]
    if settings["max_passages"] is not None:
        parts.append(f"at most {settings['max_passages']} passages")
    return ", ".join(parts) or "no limit"


def _show_means(title: str, evaluation: Any, budget: int | None, columns: Sequence[tuple[str, str, int]]) -> None:
    rows = []
    for policy in dict.fromkeys(policy for policy, _ in evaluation.rows):
        means = evaluation.means(policy, budget)
        rows.append([policy, *(_figure(means[name], digits) for _, name, digits in columns)])
    console.print_table(title, ["policy", *(title for title, _, _ in columns)], rows)


# Three, so that the table keeps to 80 columns; --json has all.
_DIFFERENCES = (
    ("answer defined", "answer_in_context.defined", 3),
    ("gold docs", "gold_doc_coverage", 3),
    ("fact F1", "supporting_fact_f1", 3),
)


# What costs a policy what it cannot win, and what "answer defined" leaves out. The JSON has all oddities.
_NOTABLE = {
    "gold_not_in_paragraphs": "with gold that is not in their paragraphs",
    "supporting_facts_out_of_range": "with supporting facts out of range",
    "answers_not_spans": "whose answer can stand in no text (yes, no, nothing)",
}


def _show_oddities(where: str, counts: dict[str, int]) -> None:
    for name, words in _NOTABLE.items():
        if counts[name]:
            print(f"{where}questions {words}: {counts[name]}")


def _show_differences(evaluation: Any, baseline: str) -> None:
    differences = evaluation.differences(baseline)
    for budget in evaluation.settings["budgets"]:
        rows = [
            [policy, *(_interval(intervals[name], digits) for _, name, digits in _DIFFERENCES)]
            for (policy, at), intervals in differences.items()
            if at == budget
        ]
        title = f"{_limit(budget, evaluation.settings)}: difference to {baseline} [95 % paired bootstrap, 10,000 draws]"
        console.print_table(title, ["policy", *(title for title, _, _ in _DIFFERENCES)], rows)


def _show_finding(table: Any) -> None:
    columns = [column for column in table.columns if any(column[1] in row for row in table.rows)]
    rows = [[_shown(row.get(name), digits) for _, name, digits in columns] for row in table.rows]
    console.print_table(table.title, [heading for heading, _, _ in columns], rows)


def _shown(value: Any, digits: int) -> str:
    if hasattr(value, "estimate"):
        return _interval(value, digits)
    if value is None or isinstance(value, str):
        return value or "-"
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _show_advice(advice: Any) -> None:
    print(f"advice from {advice.questions} questions: {advice.of}")
    for condition in advice.conditions:
        at = "" if condition.name != "budget" or condition.budget is None else f" {condition.budget}"
        for evidence in condition.evidence:
            found = evidence.interval
            value = f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]" if found.n else "-"
            print(f"{condition.name + at:<16} {condition.verdict:<12} {value:<19} {evidence.label}")
    for sentence in advice.sentences():
        print(f"- {sentence}")


def _interval(interval: Any, digits: int) -> str:
    if not interval.n:
        return "-"
    return f"{interval.estimate:+.{digits}f} [{interval.low:+.{digits}f}, {interval.high:+.{digits}f}]"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _solve_options(parser: _Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a QUBO, Ising or MaxCut file, see --format; gz too")
    parser.add_argument("--format", help="of the file; by default from its name")
    parser.add_argument("--method", default="auto", help="memetic, anneal, tabu, exact ... (default: auto)")
    parser.add_argument("--backend", default="auto", help="see `isinglass backends` (default: auto)")
    parser.add_argument("--num-reads", metavar="N", type=_count, help="independent reads")
    parser.add_argument("--num-sweeps", metavar="N", type=_count, help="sweeps of a read, for anneal and temper")
    parser.add_argument(
        "--num-solutions", metavar="K", type=_count, help="the K best distinct states instead of all reads"
    )
    parser.add_argument("--node-limit", metavar="N", type=_count, help="subproblems of exact")
    parser.add_argument("--target", metavar="ENERGY", type=float, help="stop once this energy is reached")
    parser.add_argument("--time-limit", metavar="S", type=float, help="seconds; the best so far is printed")
    parser.add_argument("--seed", type=_count, help="for the same answer again")
    parser.add_argument("--threads", type=_count, help="default: every core")
    _add_output(parser)


def _solve(args: argparse.Namespace) -> int:
    import numpy as np

    from isinglass import backends, solve
    from isinglass.problems.formats import read_qubo

    problem = read_qubo(args.file, format=args.format)
    foreign = args.backend != "auto" and backends.is_foreign(args.backend)
    options = {
        "num_reads": args.num_reads,
        "num_sweeps": args.num_sweeps,
        "num_solutions": args.num_solutions,
        "node_limit": args.node_limit,
        "target_energy": args.target,
    }
    given = {name: value for name, value in options.items() if value is not None}
    with console.Progress("%") as progress:
        try:
            result = solve(
                problem,
                args.method,
                args.backend,
                seed=args.seed,
                time_limit=args.time_limit,
                threads=args.threads,
                progress=None if foreign else lambda share: progress(round(100 * share), 100),
                **given,
            )
        except TypeError as error:  # an option that this method does not take
            raise ValueError(str(error)) from None
    energy, samples, energies = result.energy, np.asarray(result.samples), np.asarray(result.energies)
    assert energy is not None
    objective = -energy if problem.sense == "maximise" else energy
    value = {
        "energy": energy,
        "objective": objective,
        "sense": problem.sense,
        "status": result.status,
        "certificate": _plain(asdict(result.certificate)),
        "labels": [str(label) for label in problem.labels],
        "sample": np.asarray(result.sample).tolist(),
        "energies": energies.tolist(),
        "timings": dict(result.timings),
        "provenance": {name: _plain(part) for name, part in result.provenance.items()},
    }
    if args.num_solutions is not None:
        value["samples"] = samples.tolist()

    def show() -> None:
        ones = [label for label, bit in zip(value["labels"], value["sample"], strict=True) if bit]
        rows = [
            ["energy", f"{energy:.12g}"],
            ["status", result.status],
            ["method", result.provenance["method"]],
            ["back end", result.provenance["backend"]],
            ["seed", str(result.provenance["seed"])],
            ["seconds", f"{sum(result.timings.values()):.3g}"],
            ["variables at 1", f"{len(ones)} of {len(problem)}"],
        ]
        if problem.sense == "maximise":
            rows.insert(1, ["objective (maximise)", f"{objective:.12g}"])
        if (bound := result.certificate.upper_bound) is not None:
            rows.insert(1, ["no energy below", f"{bound:.12g}"])
        if len(problem) <= 64:
            rows.append(["sample", "".join(map(str, value["sample"]))])
        console.print_table(Path(args.file).name, ["", ""], rows)

    _emit(args, value, show)
    return DONE


def _plain(part: Any) -> Any:
    """What JSON can hold: no arrays, and null for a number that is not finite."""
    import numpy as np

    if isinstance(part, np.ndarray | np.generic):
        part = part.tolist()
    if isinstance(part, Mapping):
        return {str(name): _plain(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(value) for value in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part


def _fit_options(parser: _Parser) -> None:
    from isinglass.experiments.retrieval import RETRIEVERS

    parser.add_argument("files", metavar="FILE", nargs="+", help="questions with supporting facts")
    parser.add_argument("--max-passages", metavar="K", type=_count, default=5, help="sentences a set (default: 5)")
    parser.add_argument("--trials", metavar="N", type=_count, default=150, help="weights tried (default: 150)")
    parser.add_argument("--folds", metavar="N", type=_count, default=5, help="of the cross-validation (default: 5)")
    parser.add_argument("--seed", metavar="N", type=_count, default=0, help="of trials and folds (default: 0)")
    parser.add_argument("--retriever", choices=RETRIEVERS, default="none", help="none: every paragraph (default)")
    parser.add_argument("--top-k", metavar="K", type=_depth, help="paragraphs retrieved (default: all)")
    parser.add_argument("--limit", metavar="N", type=_count, help="only the first N questions of each file")
    _add_output(parser)


def _fit(args: argparse.Namespace) -> int:
    from isinglass.experiments.fitting import fit, labelled_problems

    labelled = labelled_problems(
        args.files, max_passages=args.max_passages, retriever=args.retriever, top_k=args.top_k, limit=args.limit
    )
    with console.Progress("trials") as progress:
        found = fit(labelled, trials=args.trials, folds=args.folds, seed=args.seed, progress=progress)

    def show() -> None:
        rows = [
            [name, _interval(interval, 4)]
            for name, interval in (
                ("default weights", found.default),
                ("fitted, held out", found.held_out),
                ("gain", found.gain),
            )
        ]
        title = f"supporting-fact F1 on {found.questions} questions; {found.trials} trials, {found.folds} folds"
        console.print_table(title, ["", "mean [95 % interval]"], rows)
        print("a gain on new questions" if found.gain.low > 0 else "no gain on new questions is shown")
        print(", ".join(f"{name} = {value:.4g}" for name, value in asdict(found.weights).items()))

    _emit(args, found.as_dict(), show)
    return DONE


def _report_options(parser: _Parser) -> None:
    parser.add_argument(
        "files",
        metavar="RESULTS",
        nargs="+",
        help="what `isinglass evaluate` wrote: rows (--rows, .parquet or .csv) and traces (--trace, with --trace-text "
        "to show texts), in any order; traces alone do too",
    )
    parser.add_argument(
        "-o", "--output", metavar="HTML", type=_output, default=Path("report.html"), help="(default: report.html)"
    )
    parser.add_argument("--baseline", metavar="POLICY", help="what the others are compared with (default: the first)")
    parser.add_argument("--title", default="What reached the reader", help="(default: %(default)s)")
    parser.add_argument(
        "--figures", metavar="DIR", type=Path, help="also draw the figures into this folder, SVG and PNG"
    )
    parser.add_argument("--json", action="store_true", help="print the names of the files as JSON")


def _report(args: argparse.Namespace) -> int:
    from isinglass.experiments.figures import write_figures
    from isinglass.experiments.report import read_results, write_report
    from isinglass.experiments.summary import Summary

    rows, traces = read_results(args.files)
    write_report(args.output, rows, traces, baseline=args.baseline, title=args.title)
    figures = () if args.figures is None else write_figures(Summary.of(rows, args.baseline), args.figures)
    written = {"report": str(args.output), "figures": [str(path) for path in figures]}
    if args.json:
        console.print_json(written)
    else:
        print(*(args.output, *figures), sep="\n")
    return DONE


def _backends(args: argparse.Namespace) -> int:
    from isinglass.backends import available_backends

    backends = available_backends()

    def show() -> None:
        rows = [
            [name, "yes" if state.available else "no", state.device or "-", state.reason or "-"]
            for name, state in backends.items()
        ]
        console.print_table("back ends", ["name", "available", "device", "reason"], rows)

    _emit(args, {name: asdict(state) for name, state in backends.items()}, show)
    return DONE


COMMANDS = {
    "demo": _Command("See every policy pack a sample of questions", _demo_options, _demo),
    "select": _Command("Pick passages for a question under a token budget", _select_options, _select),
    "evaluate": _Command("Compare policies on question files", _evaluate_options, _evaluate),
    "solve": _Command("Minimise a QUBO file", _solve_options, _solve),
    "fit": _Command("Learn the weights of policy qubo, and save them as a preset (-o)", _fit_options, _fit),
    "report": _Command("Make one HTML page of what evaluate wrote", _report_options, _report),
    "backends": _Command("List the back ends and whether each can run here", _add_output, _backends),
}
