"""The demonstration on a terminal: as wide as it is, without colours where standard output is none."""

from __future__ import annotations

from isinglass.demo import Demonstration, Packed, Packing

try:
    from rich.console import Console
    from rich.panel import Panel
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise ImportError(
        "the tables of the demonstration need rich: pip install 'isinglass[app]'; --json works"
    ) from error

_KEPT, _LOST, _ASIDE = "bold green", "red", "dim"
_REASONS = {
    "budget": "no room left",
    "too_long": "longer than the budget",
    "cap": "number is limited",
    "no_gain": "adds nothing new",
    "not_in_best_set": "not in the best set",
    "not_allowed": "not allowed",
}
_LEGEND = {
    "answer survived": "the gold answer stands in the context; a mark for each question",
    "all gold": "every passage that the question needs is kept",
    "tokens": "spent, mean",
    "proved": "certificate: at least this share of the best packing objective within the budget, mean",
    "of best": "what that share is, by trying every choice, mean",
}
_PLAIN_POLICY = "naive"


def show(demonstration: Demonstration) -> None:
    """Print all policies over all questions, then two questions in detail; where there is only one, that one.

    The two are the first whose answer the default policy keeps and plain ranking loses, and the first that the default
    policy loses itself.
    """
    console = Console(highlight=False)
    default = next(iter(demonstration.questions[0].packings))
    if len(demonstration.questions) == 1:
        closer = list(demonstration.questions)
    else:
        _print_summary(console, demonstration)
        kept = [packed for packed in demonstration.questions if packed.packings[default].answer_survived]
        gained = [packed for packed in kept if not packed.packings[_PLAIN_POLICY].answer_survived]
        lost = [packed for packed in demonstration.questions if packed not in kept]
        closer = [*gained[:1], *lost[:1]]
    for packed in closer:
        _print_question(console, demonstration.budget, packed, (default, _PLAIN_POLICY))


def _print_summary(console: Console, demonstration: Demonstration) -> None:
    questions = demonstration.questions
    table = Table(
        title=f"{len(questions)} questions with ten passages each, packed into {demonstration.budget} tokens",
        title_style="bold",
    )
    table.add_column("policy")
    for column in _LEGEND:
        first = column == "answer survived"
        table.add_column(column, justify="left" if first else "right", no_wrap=first)
    kept, lost = ("#", ".") if console.options.ascii_only else ("●", "·")
    for policy in questions[0].packings:
        summary = demonstration.summary(policy)
        survival = Text()
        for packed in questions:
            survived = packed.packings[policy].answer_survived
            survival.append(kept if survived else lost, _KEPT if survived else _LOST)
        survival.append(f" {summary.answers_survived:2} of {len(questions)}")
        table.add_row(
            policy,
            survival,
            str(summary.all_gold),
            f"{summary.tokens:.1f}",
            _share(summary.proved),
            _share(summary.of_best),
        )
    console.print(table)
    legend = Table.grid(padding=(0, 1))
    for column, meaning in _LEGEND.items():
        legend.add_row(Text(f"{column}:", _ASIDE), Text(meaning, _ASIDE))
    console.print(legend)
    contexts = sum(len(packed.packings) for packed in questions)
    console.print(
        f"{contexts} contexts in {1e3 * demonstration.seconds:.0f} ms. Tokens are counted by {demonstration.counter}."
    )


def _print_question(console: Console, budget: int, packed: Packed, policies: tuple[str, str]) -> None:
    question = packed.question
    console.print()
    console.print(Rule(f"question {packed.number}, {question.type}", align="left", characters="-"))
    console.print(Text(question.question, style="bold"))
    survives = [name for name, packing in packed.packings.items() if packing.answer_survived]
    fails = [name for name in packed.packings if name not in survives]
    console.print(Text.assemble("answer: ", (question.answers[0], _KEPT)))
    for verb, names in (("survives", survives), ("is lost", fails)):
        if names:
            console.print(Text(f"{verb} under {', '.join(names)}"))
    table = Table()
    table.add_column("passage (* needed)")
    table.add_column("tokens", justify="right")
    for policy in policies:
        table.add_column(policy)
    for title, tokens in packed.tokens.items():
        table.add_row(
            Text(f"{title} *" if title in question.gold else title),
            str(tokens),
            *(_fate(packed.packings[policy], title) for policy in policies),
        )
    console.print(table)
    for policy in policies:
        console.print(_context(console, budget, policy, packed.packings[policy], question.answers[0]))


def _fate(packing: Packing, title: str) -> Text:
    reason = packing.reasons[title]
    if title in packing.chosen:
        return Text(f"kept, no. {packing.chosen.index(title) + 1}", _KEPT)
    if reason.startswith("duplicate_of:"):
        return Text(f"same as {reason.removeprefix('duplicate_of:')}", _ASIDE)
    return Text(_REASONS[reason], _ASIDE)


def _context(console: Console, budget: int, policy: str, packing: Packing, answer: str) -> Panel:
    text = Text(packing.context)
    if console.is_terminal:
        text.highlight_words([answer], "bold reverse green", case_sensitive=False)
    verdict = ("answer survived", _KEPT) if packing.answer_survived else ("answer lost", _LOST)
    title = Text.assemble(
        f"{policy}: {packing.tokens} of {budget} tokens, ",
        verdict,
        "" if packing.proved is None else f", at least {_share(packing.proved)} of optimal",
    )
    return Panel(text, title=title, title_align="left", border_style=verdict[1])


def _share(of_optimum: float | None) -> str:
    if of_optimum is None:
        return "-"
    # Rounded down, as a proof has to be; 1e-9 is for an optimum that float64 holds as 0.999...
    return f"{int(100 * of_optimum + 1e-9)} %"
