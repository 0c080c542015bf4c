"""Native core. Private: the signatures here are checked against the built module by tests/test_build.py."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

__version__: str

def isa() -> str: ...
def isa_levels() -> list[str]: ...
def force_isa(level: str) -> None: ...
def available_cores() -> int: ...
def random_bits(seed: int, read: int, sweep: int, variable: int) -> int: ...
def fold(Q: NDArray[Any], upper: NDArray[np.float64], linear: NDArray[np.float64]) -> tuple[int, bool]: ...

_Answer = TypeVar("_Answer", bound=Packing)

class PackingCore:
    def __init__(
        self,
        *,
        costs: NDArray[np.float64],
        budget: float,
        integer_costs: NDArray[np.int64] | None,
        integer_budget: int,
        relevance: NDArray[np.float64] | None,
        similarity: NDArray[np.float32] | None,
        similarity_rows: NDArray[np.int64] | None,
        similarity_columns: NDArray[np.int32] | None,
        similarity_values: NDArray[np.float32] | None,
        embeddings: NDArray[np.float32] | None,
        device_dimension: int | None,
        represented: NDArray[np.int32] | None,
        store_similarity: bool,
        coverage_rows: NDArray[np.int64] | None,
        coverage_terms: NDArray[np.int32] | None,
        term_weights: NDArray[np.float64] | None,
        groups: NDArray[np.int32] | None,
        num_groups: int,
        allowed: NDArray[np.uint8] | None,
        pinned: NDArray[np.int32] | None,
        max_items: int,
        relevance_weight: float,
        coverage_weight: float,
        representation_weight: float,
        diversity_weight: float,
        facility_location_weight: float,
        saturation: float,
        unit_normalisation: bool,
        terms: Sequence[Any],
        threads: int,
    ) -> None: ...
    @property
    def eligible(self) -> NDArray[np.bool_]: ...
    def evaluate(self, selection: NDArray[np.int64]) -> float: ...
    def spending(self, selection: NDArray[np.int64]) -> tuple[float, bool]: ...
    def gain(self, selection: NDArray[np.int64], item: int) -> float: ...
    def bound(
        self, selection: NDArray[np.int64], tight: bool, time_limit: float
    ) -> tuple[float, float | None, str | None]: ...

class Packing:
    """The base of packing results: `problem`, `plan` and `request` are what it was made with."""

    @property
    def problem(self) -> Any: ...
    @property
    def plan(self) -> Any: ...
    @property
    def request(self) -> Any: ...
    @property
    def selection(self) -> NDArray[np.int64]: ...
    @property
    def gains(self) -> NDArray[np.float64]: ...
    @property
    def objective(self) -> float: ...
    @property
    def cost(self) -> float: ...
    @property
    def feasible(self) -> bool: ...
    @property
    def upper_bound(self) -> float | None: ...
    @property
    def bound_method(self) -> str | None: ...
    @property
    def status(self) -> Literal["optimal", "bounded", "feasible", "time_limit", "interrupted"]: ...
    @property
    def instruction_set(self) -> str: ...
    @property
    def gain_evaluations(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def search_seconds(self) -> float: ...
    @property
    def certificate_seconds(self) -> float: ...

class PackingBatch:
    def __len__(self) -> int: ...
    def answer(self, index: int, kind: type[_Answer], problem: object, plan: object, request: object) -> _Answer: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def costs(self) -> NDArray[np.float64]: ...
    @property
    def upper_bounds(self) -> NDArray[np.float64]: ...
    @property
    def statuses(self) -> list[str]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def selections(self) -> NDArray[np.int64]: ...

def pack(
    kind: type[_Answer],
    problem: object,
    plan: object,
    request: object,
    core: PackingCore,
    plus_max: bool,
    tight: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
    high_effort: bool,
    threads: int,
    /,
) -> _Answer: ...
def pack_many(
    problems: Sequence[PackingCore],
    plus_max: bool,
    tight: bool,
    time_limit: float,
    threads: int,
    progress: Callable[[float], object] | None,
    high_effort: bool,
) -> PackingBatch: ...
def pack_exactly(
    kind: type[_Answer],
    problem: object,
    plan: object,
    request: object,
    core: PackingCore,
    node_limit: int,
    time_limit: float,
    threads: int,
    progress: Callable[[float], object] | None,
) -> _Answer: ...
def pack_samples(
    kind: type[_Answer],
    problem: object,
    plan: object,
    request: object,
    core: PackingCore,
    epsilon: float,
    seed: int,
    tight: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> _Answer: ...
def pack_shards(
    kind: type[_Answer],
    problem: object,
    plan: object,
    request: object,
    core: PackingCore,
    shards: int,
    seed: int,
    threads: int,
    tight: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> _Answer: ...
def all_finite(values: NDArray[np.float32]) -> bool: ...
def all_amounts(values: NDArray[np.float64], positive: bool) -> bool: ...
def true_entries(matrix: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def ranks(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int32] | None: ...
def first_unmirrored(
    row_start: NDArray[np.int64], column: NDArray[np.int32], value: NDArray[np.float32], tolerance: float
) -> int: ...
def bytes_of_sample_sums(n: int, columns: int) -> int: ...
def cosines(rows: NDArray[np.float32], others: NDArray[np.float32], threads: int) -> NDArray[np.float32]: ...
def cosine_similarity(embeddings: NDArray[np.float32], threads: int) -> NDArray[np.float32]: ...

class CharacterTable:
    def __init__(
        self,
        properties: NDArray[np.uint8],
        folded: NDArray[np.uint32],
        expansion: NDArray[np.uint32],
    ) -> None: ...

_BridgeTexts = tuple[str, list[str], list[int] | None, list[bool] | None, list[str | list[str]]]
_Weights = tuple[float, float, float, float, float, float, float, float, float, float, float]
_Choice = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], int]

class Bridge:
    def __init__(self, given: _BridgeTexts, ascii_words: bool, table: CharacterTable | None) -> None: ...
    def embed(self, question: NDArray[np.float32], vectors: NDArray[np.float32]) -> None: ...
    @property
    def embedded(self) -> bool: ...
    @property
    def cosine(self) -> NDArray[np.float64]: ...
    @property
    def size(self) -> int: ...
    @property
    def passage(self) -> NDArray[np.int64]: ...
    @property
    def position(self) -> NDArray[np.int64]: ...
    @property
    def document(self) -> NDArray[np.int64]: ...
    @property
    def start(self) -> NDArray[np.int64]: ...
    @property
    def end(self) -> NDArray[np.int64]: ...
    @property
    def tokens(self) -> NDArray[np.int64]: ...
    @property
    def match(self) -> NDArray[np.float64]: ...
    @property
    def names(self) -> NDArray[np.float64]: ...
    @property
    def leads_to(self) -> NDArray[np.int64]: ...
    @property
    def link(self) -> NDArray[np.float64]: ...
    @property
    def linked_from(self) -> NDArray[np.int64]: ...
    @property
    def linked(self) -> NDArray[np.float64]: ...
    @property
    def linked_at(self) -> NDArray[np.int64]: ...
    @property
    def first(self) -> NDArray[np.bool_]: ...
    @property
    def named(self) -> NDArray[np.float64]: ...
    @property
    def through(self) -> NDArray[np.int64]: ...
    @property
    def in_question(self) -> NDArray[np.bool_]: ...
    @property
    def title_tokens(self) -> NDArray[np.int64]: ...
    @property
    def kept_as(self) -> NDArray[np.int64]: ...
    @property
    def idf(self) -> NDArray[np.float64]: ...
    @property
    def coverage(self) -> NDArray[np.uint8]: ...
    def worth(self, weights: _Weights) -> NDArray[np.float64]: ...
    def keys(
        self, weights: _Weights, chosen: Sequence[int], costs: NDArray[np.int64] | None
    ) -> NDArray[np.float64]: ...
    def pick(
        self,
        weights: _Weights,
        budget: int,
        max_items: int,
        costs: NDArray[np.int64] | None,
        title_costs: NDArray[np.int64] | None,
        pinned: Sequence[int],
    ) -> _Choice: ...

def bridge_many(
    given: list[_BridgeTexts], ascii_words: bool, table: CharacterTable | None, threads: int
) -> list[Bridge]: ...
def pick_many(
    bridges: Sequence[Bridge], weights: _Weights, budget: int, titled: bool, threads: int
) -> list[_Choice]: ...
def cut_sentences(text: str, table: CharacterTable | None) -> list[tuple[int, int]]: ...

class WordNumbers:
    def __init__(self, ascii_words: bool) -> None: ...
    def encode(self, texts: list[str], table: CharacterTable | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    @property
    def words(self) -> list[str]: ...

class TokenNumbers:
    def __init__(self, word_boundaries: bool, table: CharacterTable) -> None: ...
    def of(self, texts: list[str] | list[list[str]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...

def find_runs(
    tokens: NDArray[np.int32],
    snippet_starts: NDArray[np.int64],
    context_snippets: NDArray[np.int64],
    run_tokens: NDArray[np.int32],
    run_starts: NDArray[np.int64],
    context_runs: NDArray[np.int64],
) -> NDArray[np.uint8]: ...
def natural_logarithm(x: float) -> float: ...
def exponential(x: float) -> float: ...

class QuboCore:
    def __init__(
        self,
        linear: NDArray[np.float64],
        dense: NDArray[np.float64] | None,
        row_start: NDArray[np.int64] | None,
        neighbour: NDArray[np.int32] | None,
        coupling: NDArray[np.float64] | None,
        offset: float,
        scale: float | None,
    ) -> None: ...
    @property
    def scale(self) -> float: ...
    @property
    def exact(self) -> bool: ...
    @property
    def max_error(self) -> float: ...
    @property
    def num_couplings(self) -> int: ...
    @property
    def worst_field(self) -> int: ...
    @property
    def window(self) -> tuple[float, float]: ...
    @property
    def layouts(self) -> list[str]: ...
    def energies(self, states: NDArray[np.uint8]) -> NDArray[np.float64]: ...

class Walked:
    @property
    def samples(self) -> NDArray[np.int8]: ...
    @property
    def energies(self) -> NDArray[np.float64]: ...
    @property
    def best(self) -> int: ...
    @property
    def energy(self) -> float: ...
    @property
    def flips(self) -> NDArray[np.int64]: ...
    @property
    def trace(self) -> NDArray[np.float64]: ...
    @property
    def generations(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def stopped(self) -> Literal["none", "time_limit", "interrupted"]: ...
    @property
    def target_reached(self) -> bool: ...
    @property
    def betas(self) -> NDArray[np.float64]: ...
    @property
    def children(self) -> int: ...
    @property
    def swap_rates(self) -> NDArray[np.float64]: ...
    @property
    def schedule_seconds(self) -> float: ...
    @property
    def search_seconds(self) -> float: ...

def anneal(
    qubo: QuboCore,
    num_reads: int,
    num_sweeps: int,
    beta_range: tuple[float, float] | None,
    linear: bool,
    betas: NDArray[np.float64] | None,
    quench: bool,
    seed: int,
    threads: int,
    layout: str | None,
    initial_states: NDArray[np.uint8] | None,
    target_energy: float | None,
    trace: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Walked: ...
def temper(
    qubo: QuboCore,
    num_reads: int,
    num_sweeps: int,
    beta_range: tuple[float, float] | None,
    seed: int,
    threads: int,
    layout: str | None,
    initial_states: NDArray[np.uint8] | None,
    target_energy: float | None,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Walked: ...
def descend(
    qubo: QuboCore,
    steepest: bool,
    num_reads: int,
    seed: int,
    threads: int,
    layout: str | None,
    initial_states: NDArray[np.uint8] | None,
    target_energy: float | None,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Walked: ...
def anneal_many(
    qubos: Sequence[QuboCore],
    num_reads: Sequence[int],
    num_sweeps: int,
    beta_range: tuple[float, float] | None,
    linear: bool,
    betas: NDArray[np.float64] | None,
    quench: bool,
    seeds: Sequence[int],
    threads: int,
    layout: str | None,
    initial_states: Sequence[NDArray[np.uint8] | None],
    target_energy: float | None,
    trace: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> list[Walked]: ...

class Proof:
    @property
    def samples(self) -> NDArray[np.int8]: ...
    @property
    def energies(self) -> NDArray[np.float64]: ...
    @property
    def lower_bound(self) -> float: ...
    @property
    def root_bound(self) -> float: ...
    @property
    def proved(self) -> bool: ...
    @property
    def nodes(self) -> int: ...
    @property
    def reduced(self) -> int: ...
    @property
    def stopped(self) -> Literal["none", "time_limit", "interrupted"]: ...
    @property
    def start_seconds(self) -> float: ...
    @property
    def search_seconds(self) -> float: ...

def exact(
    qubo: QuboCore,
    num_solutions: int,
    node_limit: int | None,
    seed: int,
    initial_states: NDArray[np.uint8] | None,
    memory_limit: int,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Proof: ...
def tabu(
    qubo: QuboCore,
    num_reads: int,
    patience: int,
    max_moves: int,
    tenure: int | None,
    seed: int,
    threads: int,
    layout: str | None,
    initial_states: NDArray[np.uint8] | None,
    target_energy: float | None,
    trace: bool,
    until_stopped: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Walked: ...
def memetic(
    qubo: QuboCore,
    pool_size: int,
    generations: int,
    restarts: int,
    patience: int,
    tenure: int | None,
    seed: int,
    threads: int,
    initial_states: NDArray[np.uint8] | None,
    target_energy: float | None,
    keep: int,
    widen: bool,
    trace: bool,
    until_stopped: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Walked: ...
def memetic_many(
    qubos: Sequence[QuboCore],
    pool_size: int,
    generations: int,
    restarts: int,
    patience: int,
    tenure: int | None,
    seeds: Sequence[int],
    threads: int,
    initial_states: Sequence[NDArray[np.uint8] | None],
    target_energy: float | None,
    keep: int,
    widen: bool,
    trace: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> list[Walked]: ...

class EvidenceCore:
    def __init__(
        self,
        *,
        linear: NDArray[np.float64],
        pairs: NDArray[np.float64],
        covers: NDArray[np.uint8],
        term_weights: NDArray[np.float64],
        max_items: int,
        costs: NDArray[np.int64] | None,
        budget: int,
    ) -> None: ...
    @property
    def granule(self) -> float: ...
    @property
    def max_error(self) -> float: ...
    def bound(self, target: float, steps: int, time_limit: float) -> float: ...

class EvidenceAnswer:
    @property
    def selection(self) -> NDArray[np.int64]: ...
    @property
    def value(self) -> float: ...
    @property
    def upper_bound(self) -> float | None: ...
    @property
    def proved(self) -> bool: ...
    @property
    def reads(self) -> int: ...
    @property
    def patience(self) -> int: ...
    @property
    def moves(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def dual_steps(self) -> int: ...
    @property
    def work(self) -> int: ...
    @property
    def stopped(self) -> Literal["none", "time_limit", "interrupted"]: ...
    @property
    def search_seconds(self) -> float: ...
    @property
    def proof_seconds(self) -> float: ...

class EvidenceBatch:
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> EvidenceAnswer: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def upper_bounds(self) -> NDArray[np.float64]: ...
    @property
    def offsets(self) -> NDArray[np.int64]: ...
    @property
    def selections(self) -> NDArray[np.int64]: ...

def select_evidence(
    problem: EvidenceCore,
    num_reads: int,
    patience: int,
    node_limit: int,
    work_limit: int,
    seed: int,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> EvidenceAnswer: ...
def select_evidence_many(
    problems: Sequence[EvidenceCore],
    num_reads: int,
    patience: int,
    node_limit: int,
    work_limit: int,
    seeds: Sequence[int],
    threads: int,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> EvidenceBatch: ...
