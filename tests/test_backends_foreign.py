"""Back ends of others behind one flag: same results, same refusals; judged by enumeration and by what users suffer."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import isinglass as ig
import numpy as np
import pytest
from isinglass import Qubo, _core, backends, generators
from isinglass.backends import BackendError, foreign, ocean

from tests.qubo_cases import dense, optimum, sparse

dimod = pytest.importorskip("dimod", reason="the extra ocean is not installed")
pytest.importorskip("dwave.samplers", reason="the extra ocean is not installed")
pytest.importorskip("openjij", reason="the extra openjij is not installed")
testing = pytest.importorskip("dwave.system.testing", reason="the extra ocean is not installed")

# The mock scales nothing by itself, and says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:'auto_scale' parameter is valid"),
    pytest.mark.filterwarnings("ignore:All bqm biases are zero"),
]

LOCAL = ("neal", "dwave-tabu", "openjij")
ALL = (*LOCAL, "dwave", "leap")


class FakeHybrid:
    """What LeapHybridSampler offers, with an exact solver behind it."""

    def __init__(self) -> None:
        self.properties = {"category": "hybrid"}
        self.parameters: dict[str, Any] = {"time_limit": []}
        self.asked: list[Any] = []

    def min_time_limit(self, bqm: Any) -> float:
        return 3.0

    def sample(self, bqm: Any, time_limit: float | None = None) -> Any:
        self.asked.append((bqm, time_limit))
        return dimod.ExactSolver().sample(bqm).truncate(1, sorted_by="energy")


class SpyProcessor(testing.MockDWaveSampler):  # type: ignore[misc]
    """A mock processor, with annealing inside, that keeps what it was asked."""

    def __init__(self) -> None:
        from dwave.samplers import SimulatedAnnealingSampler

        super().__init__(substitute_sampler=SimulatedAnnealingSampler(), substitute_kwargs={"num_sweeps": 200})

    def sample(self, bqm: Any, **parameters: Any) -> Any:
        self.asked = (bqm.copy(), parameters)
        return super().sample(bqm, **parameters)


def solve(qubo: Qubo, name: str, **options: Any) -> ig.Result:
    """Shorter than by default, and without a service."""
    if name == "dwave":
        options = {"sampler": SpyProcessor(), "num_reads": 20} | options
    elif name == "leap":
        options = {"sampler": FakeHybrid()} | options
    else:
        options = {"num_reads": 5, "seed": 11} | options
    return ig.solve(qubo, backend=name, **options)


# --- the same results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_all_reach_the_optimum_of_small_models(name: str, n: int) -> None:
    for make in (dense, sparse):
        qubo = make(n, seed=n)
        result = solve(qubo, name)
        assert result.energy == optimum(qubo) == ig.solve(qubo, "exact").energy
        assert result.energy == qubo.energy(result.sample) == result.energies.min()
        np.testing.assert_array_equal(result.energies, qubo.energies(result.samples))
        assert result.samples.dtype == np.int8
        assert not result.samples.flags.writeable
        assert result.status == "feasible"
        assert result.certificate == ig.Certificate(result.energy, True, None, None, None)


@pytest.mark.parametrize("name", LOCAL)
def test_penalty_models_of_twelve_passages(name: str) -> None:
    qubo = generators.rag_like(12, 2, 3, seed=1)
    # Default temperatures of the annealers come from the extremes of the coefficients: more reads make up for it.
    assert solve(qubo, name, num_reads=100).energy == ig.solve(qubo, "exact").energy


def _entry_points(offset: float) -> dict[str, Qubo]:
    matrix = np.array([[-1.0, 2.0, 0.0], [0.0, -2.0, 1.0], [0.0, 0.0, 0.5]])
    plain = Qubo(matrix)
    h, J, constant = plain.to_ising()
    terms = {(i, j): matrix[i, j] for i in range(3) for j in range(3)}
    return {
        "matrix": Qubo(matrix, offset),
        "mapping": Qubo(terms, offset),
        "entries": Qubo.from_entries(*np.nonzero(matrix), matrix[np.nonzero(matrix)], 3, offset),
        "ising": Qubo.from_ising(h, J, constant + offset),
        "binary": Qubo.from_bqm(dimod.BinaryQuadraticModel.from_qubo(terms, offset)),
        "spin": Qubo.from_bqm(dimod.BinaryQuadraticModel.from_qubo(terms, offset).change_vartype("SPIN")),
    }


@pytest.mark.parametrize("name", ["cpu", "numpy", *ALL])
@pytest.mark.parametrize("entry", list(_entry_points(0.0)))
def test_rows_6_and_7_the_offset_survives(name: str, entry: str) -> None:
    method = {"method": "anneal", "num_reads": 5} if name in ("cpu", "numpy") else {}
    without, shifted = (
        ig.solve(_entry_points(offset)[entry], backend=name, seed=3, **method)
        if method
        else solve(_entry_points(offset)[entry], name)
        for offset in (0.0, 12345.5)
    )
    assert (without.energy, shifted.energy) == (-2.0, 12343.5)
    assert shifted.energies.min() == 12343.5


@pytest.mark.parametrize("name", ALL)
def test_row_9_both_halves_of_a_pair_are_added(name: str) -> None:
    result = solve(Qubo({(0, 1): 2, (1, 0): -2, (0, 0): -1}), name)
    assert result.energy == -1
    assert result.sample[0] == 1


@pytest.mark.parametrize("name", ALL)
def test_row_43_columns_are_in_the_order_of_the_labels(name: str) -> None:
    qubo = Qubo(np.diag([-1.0, 2.0, -3.0]), labels=["b", "a", "c"])
    assert solve(qubo, name).sample.tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", ALL)
def test_row_35_variables_without_a_term_are_kept(name: str) -> None:
    result = solve(Qubo({(1, 1): -1.0, (3, 3): -1.0, (1, 3): 0.5}, labels=range(5)), name)
    assert result.samples.shape[1] == 5
    assert result.sample[[1, 3]].tolist() == [1, 1]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("limited", [False, True])
def test_row_33_small_and_empty_models(name: str, n: int, limited: bool) -> None:
    options: dict[str, Any] = {} if name == "leap" else {"num_reads": 2}
    if limited and name != "dwave":  # which takes no time limit
        options["time_limit"] = 4.0 if name == "leap" else 0.2
    result = solve(Qubo(np.zeros((n, n)), offset=1.5), name, **options)
    assert result.energy == 1.5
    assert result.samples.shape[1] == n
    if name in LOCAL:
        assert len(result.samples) == 2


@pytest.mark.parametrize("name", ALL)
def test_row_17_inputs_are_left_alone(name: str) -> None:
    matrix, offset = np.array([[1.0, -2.0], [0.0, 1.0]]), np.array(1.0)
    matrix.setflags(write=False)
    qubo = Qubo(matrix, offset)
    before = qubo.to_numpy().copy()
    assert solve(qubo, name).energy == 1.0
    np.testing.assert_array_equal(qubo.to_numpy(), before)
    assert offset == 1.0


@pytest.mark.parametrize("name", [*LOCAL, "dwave"])
def test_num_solutions_are_distinct_and_sorted(name: str) -> None:
    result = solve(dense(6), name, num_reads=30, num_solutions=3)
    assert len(np.unique(result.samples, axis=0)) == len(result.samples) <= 3
    assert (np.diff(result.energies) >= 0).all()


def test_row_41_numpy_integers_and_our_own_result_are_taken() -> None:
    qubo = dense(8)
    first = ig.solve(qubo, "anneal", seed=1)
    for name in LOCAL:
        result = solve(qubo, name, num_reads=np.int64(4), initial_states=first)
        assert len(result.samples) == 4


# --- seeds and start states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["neal", "openjij"])
def test_seeds_repeat_a_run_and_reads_differ(name: str) -> None:
    qubo = dense(40)
    first, again, other = (solve(qubo, name, seed=s, num_reads=20, num_sweeps=2).samples for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first, axis=0)) > 15


@pytest.mark.parametrize("name", LOCAL)
def test_long_seeds_are_folded_and_recorded(name: str) -> None:
    used = {}
    for seed in (5, 2**31, 2**32 + 5, 2**64 - 1):
        provenance = solve(dense(3), name, seed=seed, num_reads=1).provenance
        assert provenance["seed"] == seed
        used[seed] = provenance["backend_seed"]
    assert used[5] == 5
    assert len(set(used.values())) == 4
    assert max(used.values()) < 2**32
    drawn = solve(dense(3), name, seed=None, num_reads=1).provenance
    assert 0 <= drawn["seed"] < 2**64


def test_folding_is_by_our_hash() -> None:
    assert foreign.folded(2**40, 2**32 - 1) == _core.random_bits(2**40, 0, 0, 0)


@pytest.mark.parametrize("name", ["neal", "openjij"])
def test_rows_10_11_and_29_start_states_are_binary_and_honoured(name: str) -> None:
    qubo = Qubo(np.diag([-5.0, -5.0, -5.0]))
    assert solve(qubo, name, initial_states=[0, 0, 0]).sample.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"initial_states\[0\] must be 0 or 1, got 2"):
        solve(qubo, name, initial_states=[2, 0, 0])
    with pytest.raises(ValueError, match=r"initial_states\[0\] must be 0 or 1, got -1"):
        solve(qubo, name, initial_states=[-1, 1, 1])
    cold: dict[str, Any] = {"beta_range": (1e3, 1e3), "num_sweeps": 5}
    hard = dense(14, seed=3)
    best = ig.solve(hard, "exact")
    for row, energy in zip(*(lambda r: (r.samples, r.energies))(solve(hard, name, initial_states=best, **cold))):
        assert energy == best.energy, row


def test_row_23_no_sweeps_give_the_start() -> None:
    start = np.random.default_rng(0).integers(0, 2, (4, 9))
    result = solve(dense(9), "neal", initial_states=start, num_sweeps=0, num_reads=4)
    np.testing.assert_array_equal(result.samples, start)


@pytest.mark.parametrize("sweeps", [1, 1999, 2001, 2500])
def test_row_22_sweeps_done_are_sweeps_asked(sweeps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import dwave.samplers

    asked = {}
    original = dwave.samplers.SimulatedAnnealingSampler.sample

    def spy(self: Any, bqm: Any, **keywords: Any) -> Any:
        asked.update(keywords)
        return original(self, bqm, **keywords)

    monkeypatch.setattr(dwave.samplers.SimulatedAnnealingSampler, "sample", spy)
    result = solve(dense(3), "neal", num_sweeps=sweeps, num_reads=1)
    assert asked["num_sweeps"] * asked["num_sweeps_per_beta"] == sweeps
    assert result.provenance["num_sweeps"] == sweeps


@pytest.mark.parametrize("name", ["neal", "openjij"])
def test_schedules_are_passed_on(name: str) -> None:
    qubo = dense(10)
    hot = solve(qubo, name, beta_range=(1e-9, 1e-9), num_reads=60, num_sweeps=3)
    cold = solve(qubo, name, beta_schedule=[0.01, 0.1, 1.0, 10.0], num_reads=60)
    linear = solve(qubo, name, beta_range=(0.01, 1.0), beta_schedule="linear", num_reads=60, num_sweeps=50)
    assert hot.energies.mean() > linear.energies.mean()
    assert hot.energies.mean() > cold.energies.mean()
    with pytest.raises(ValueError, match="beta_schedule must be finite"):
        solve(qubo, name, beta_schedule=[0.1, np.inf])


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_section_e_scales(name: str, scale: float) -> None:
    qubo = Qubo(np.diag(np.where(np.arange(40) % 2, -scale, scale)))
    result = solve(qubo, name, num_sweeps=200) if name != "dwave-tabu" else solve(qubo, name)
    assert result.energy == pytest.approx(-20 * scale)


def test_row_2_more_reads_never_worsen_the_best() -> None:
    matrix = np.diag([5.0, 4, 3, 6, 2]) - np.triu(np.full((5, 5), 2.0), 1)
    for name in ("neal", "openjij"):
        best = [solve(Qubo(-matrix), name, num_reads=reads, num_sweeps=1).energy for reads in (1, 10, 100)]
        assert best == sorted(best, reverse=True)


def test_time_limits_say_so() -> None:
    qubo = dense(200)
    for name in ("neal", "openjij"):
        result = solve(qubo, name, num_reads=2000, time_limit=0.2)
        assert result.status == "time_limit"
        assert 1 <= len(result.samples) < 2000
        assert result.timings["search"] < 2
    assert solve(qubo, "dwave-tabu", num_reads=4, time_limit=0.04).provenance["timeout_ms"] == 10


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("neal", "layout", "lanes32"),
        ("neal", "target_energy", 1.0),
        ("neal", "bits", 8),
        ("dwave-tabu", "bits", 16),
        ("openjij", "trace", True),
        ("dwave", "seed", 1),
        ("dwave", "time_limit", 1.0),
        ("leap", "seed", 1),
        *((name, "memory_limit", 10) for name in ALL),
        *((name, "progress", print) for name in ALL),
    ],
)
def test_options_that_cannot_be_honoured_are_refused_by_name(name: str, option: str, value: Any) -> None:
    with pytest.raises(BackendError, match=rf"backend '{name}' cannot honour (option ')?{option}"):
        solve(dense(3), name, **{option: value})


@pytest.mark.parametrize("name", ["cpu", *ALL])
def test_row_25_unknown_keywords_are_refused(name: str) -> None:
    options = {"method": "anneal"} if name == "cpu" else {}
    with pytest.raises(TypeError, match="num_solution'; did you mean 'num_solutions'"):
        solve(dense(3), name, num_solution=3, **options)


def test_methods_and_problems_that_a_back_end_lacks() -> None:
    with pytest.raises(BackendError, match="backend 'neal' has no method 'tabu', it offers anneal"):
        ig.solve(dense(3), "tabu", "neal")
    packing = ig.PackingProblem([1.0], 1, relevance=[1.0])
    with pytest.raises(BackendError, match="backend 'neal' has no method 'greedy_plus_max'"):
        ig.solve(packing, backend="neal")
    with pytest.raises(BackendError, match="unknown backend 'neall': did you mean 'neal'"):
        ig.solve(dense(3), backend="neall")


def test_auto_is_never_foreign() -> None:
    assert ig.solve(dense(3)).provenance["backend"] == "cpu"


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("neal", "dwave-samplers", "ocean"),
        ("dwave-tabu", "dwave-samplers", "ocean"),
        ("dwave", "dwave-system", "ocean"),
        ("leap", "dwave-system", "ocean"),
        ("openjij", "openjij", "openjij"),
    ],
)
def test_a_missing_package_names_its_extra(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(foreign.metadata, "version", missing)
    state = ig.available_backends()[name]
    assert (state.available, state.device) == (False, None)
    assert state.reason == f"{package} is missing: pip install 'isinglass[{extra}]'"
    with pytest.raises(BackendError, match=rf"backend '{name}' is not available: {package} is missing"):
        ig.solve(dense(3), backend=name)


@pytest.fixture
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    import dwave.cloud.config

    monkeypatch.setattr(dwave.cloud.config, "get_configfile_paths", list)
    for variable in ("DWAVE_API_TOKEN", "DWAVE_API_SOLVER", "DWAVE_API_REGION"):
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["dwave", "leap"])
def test_a_missing_token_or_solver_names_the_variable(name: str, no_configuration: pytest.MonkeyPatch) -> None:
    assert "DWAVE_API_TOKEN" in str(ig.available_backends()[name].reason)
    with pytest.raises(BackendError, match=f"backend '{name}' is not available: no token: set DWAVE_API_TOKEN"):
        ig.solve(dense(3), backend=name)
    no_configuration.setenv("DWAVE_API_TOKEN", "none")
    assert ig.available_backends()[name].available

    import dwave.system
    from dwave.cloud.exceptions import SolverNotFoundError

    def refuse(**keywords: Any) -> Any:
        raise SolverNotFoundError("No solvers with the required features available")

    no_configuration.setattr(dwave.system, "DWaveSampler" if name == "dwave" else "LeapHybridSampler", refuse)
    with pytest.raises(BackendError, match=r"cannot open solver 'QPU_7': .*DWAVE_API_TOKEN, DWAVE_API_SOLVER"):
        ig.solve(dense(3), backend=name, solver="QPU_7")


# --- the quantum processor (mock) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("chain_strength", [None, 7.0])
def test_what_a_processor_gets_is_within_its_range(scale: float, chain_strength: float | None) -> None:
    spy = SpyProcessor()
    qubo = Qubo(dense(7, seed=2).to_numpy() * scale)
    strength = None if chain_strength is None else chain_strength * scale
    result = solve(qubo, "dwave", sampler=spy, chain_strength=strength)
    sent, parameters = spy.asked
    couplings, fields = np.array(list(sent.quadratic.values())), np.array(list(sent.linear.values()))
    assert -2 <= couplings.min() < couplings.max() <= 1 + 1e-12
    assert np.abs(fields).max() <= 4
    # As large as it may be: the weakest of the three limits is reached.
    assert max(couplings.max(), -couplings.min() / 2, np.abs(fields).max() / 4) > 0.4
    assert (parameters["auto_scale"], parameters["answer_mode"]) == (False, "raw")
    provenance = result.provenance
    assert provenance["quantisation"]["certificate"] == "uncertified"
    if strength is not None:
        assert provenance["chain_strength"] == strength
        assert couplings.min() == pytest.approx(-strength * provenance["quantisation"]["scale"])
    assert set(provenance["embedding"]) == set(range(7))
    assert len(provenance["chain_break_fraction"]) == len(result.samples) == 20
    assert result.energy == pytest.approx(optimum(qubo))


def test_a_given_embedding_is_used() -> None:
    mock = SpyProcessor()
    first = solve(dense(4), "dwave", sampler=mock)
    embedding = first.provenance["embedding"]
    again = solve(dense(4), "dwave", sampler=mock, embedding=embedding)
    assert again.provenance["embedding"] == embedding
    assert set(mock.asked[0].variables) == {qubit for chain in embedding.values() for qubit in chain}


def test_limits_of_a_processor_are_refused_with_numbers() -> None:
    with pytest.raises(BackendError, match=r"no embedding of 22 variables and 2\d\d couplings in the 128 qubits"):
        solve(dense(22), "dwave")
    with pytest.raises(ValueError, match=r"num_reads must be in \[1, 10000\] for this solver, got 10001"):
        solve(dense(3), "dwave", num_reads=10_001)
    with pytest.raises(ValueError, match=r"annealing_time must be in \[0.5, 2000.0\] for this solver, got 3000"):
        solve(dense(3), "dwave", annealing_time=3000)
    with pytest.raises(ValueError, match="chain_strength must be finite and > 0, got 0"):
        solve(dense(3), "dwave", chain_strength=0)
    with pytest.raises(ValueError, match="sampler must be a dimod sampler with sample and properties, got int"):
        solve(dense(3), "dwave", sampler=3)
    with pytest.raises(ValueError, match="give sampler or solver, not both"):
        solve(dense(3), "dwave", solver="x")


def test_device_scale_by_hand() -> None:
    qubo = Qubo.from_ising([2.0, 0.0], [[0.0, 4.0], [0.0, 0.0]])
    ranges = {"h_range": [-4.0, 4.0], "j_range": [-1.0, 1.0], "extended_j_range": [-2.0, 1.0]}
    assert ocean.device_scale(qubo, 1.0, ranges) == 0.25  # by the coupling
    assert ocean.device_scale(qubo, 16.0, ranges) == 0.125  # by the chains
    assert ocean.device_scale(Qubo(np.zeros((2, 2))), 0.0, ranges) == 1.0


# --- the hybrid service (a stand-in) ---------------------------------------------------------------------------------


def test_the_hybrid_service_gets_the_time_that_it_needs() -> None:
    fake = FakeHybrid()
    result = solve(dense(6), "leap", sampler=fake, time_limit=5.0)
    assert fake.asked[0][1] == 5.0
    assert result.provenance["solver"] == "hybrid"
    with pytest.raises(ValueError, match=r"time_limit must be >= 3 s for this model on the service, got 1.0"):
        solve(dense(6), "leap", sampler=fake, time_limit=1.0)


# --- many ------------------------------------------------------------------------------------------------------------


def test_solve_many_and_pickling() -> None:
    import pickle

    problems = [dense(5, seed) for seed in range(3)]
    results = ig.solve_many(problems, backend="neal", seed=4, num_reads=3)
    for problem, result in zip(problems, results, strict=True):
        alone = ig.solve(problem, backend="neal", seed=4, num_reads=3)
        np.testing.assert_array_equal(result.samples, alone.samples)
        assert pickle.loads(pickle.dumps(alone)).energy == result.energy


def test_every_name_is_listed() -> None:
    assert set(ig.available_backends()) == set(backends.names()) >= {"cpu", "numpy", *ALL}


@pytest.mark.parametrize("name", LOCAL)
def test_evidence_problems_go_through_their_matrix(name: str) -> None:
    rng = np.random.default_rng(1)
    problem = ig.EvidenceProblem(rng.random(6), rng.integers(0, 3, (2, 6)), max_passages=3)
    result = ig.solve(problem, backend=name, num_reads=20, seed=1)
    assert result.provenance["backend"] == name
    assert result.objective == pytest.approx(ig.solve(problem, "exact").objective)
