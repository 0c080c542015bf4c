"""Native core. Private: the signatures here are checked against the built module by tests/test_build.py."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__version__: str

def isa() -> str: ...
def isa_levels() -> list[str]: ...
def force_isa(level: str) -> None: ...
def available_cores() -> int: ...
def random_bits(seed: int, read: int, sweep: int, variable: int) -> int: ...

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
    ) -> None: ...
    @property
    def eligible(self) -> NDArray[np.bool_]: ...
    def evaluate(self, selection: NDArray[np.int64]) -> float: ...
    def spending(self, selection: NDArray[np.int64]) -> tuple[float, bool]: ...
    def gain(self, selection: NDArray[np.int64], item: int) -> float: ...
    def bound(self, selection: NDArray[np.int64], tight: bool, time_limit: float) -> tuple[float, str]: ...

class Packing:
    @property
    def selection(self) -> NDArray[np.int64]: ...
    @property
    def gains(self) -> NDArray[np.float64]: ...
    @property
    def value(self) -> float: ...
    @property
    def cost(self) -> float: ...
    @property
    def feasible(self) -> bool: ...
    @property
    def upper_bound(self) -> float: ...
    @property
    def bound_method(self) -> str: ...
    @property
    def status(self) -> Literal["optimal", "bounded", "time_limit", "interrupted"]: ...
    @property
    def instruction_set(self) -> str: ...
    @property
    def gain_evaluations(self) -> int: ...
    @property
    def search_seconds(self) -> float: ...
    @property
    def certificate_seconds(self) -> float: ...

def pack(
    problem: PackingCore,
    plus_max: bool,
    tight: bool,
    time_limit: float,
    progress: Callable[[float], object] | None,
) -> Packing: ...
def pack_many(
    problems: Sequence[PackingCore],
    plus_max: bool,
    tight: bool,
    time_limit: float,
    threads: int,
    progress: Callable[[float], object] | None,
) -> list[Packing]: ...
def cosine_similarity(embeddings: NDArray[np.float32], threads: int) -> NDArray[np.float32]: ...
