"""Our dimod sampler: dimod's own contract tests, and what Ocean programs rely on."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import isinglass as ig
import numpy as np
import pytest

dimod = pytest.importorskip("dimod", reason="the extra ocean is not installed")

from dimod.testing import assert_response_energies, assert_sampler_api, assert_sampleset_energies  # noqa: E402
from isinglass.adapters.dimod import IsinglassSampler  # noqa: E402


def model(vartype: str = "BINARY") -> Any:
    bqm = dimod.BinaryQuadraticModel(
        {"b": -1.0, "a": 2.5, "c": 0.0}, {("b", "c"): -0.75, ("a", "b"): 1.1}, 7.25, vartype
    )
    bqm.add_variable("unused", 0.0)
    return bqm


def test_the_contract_of_dimod() -> None:
    assert_sampler_api(IsinglassSampler())
    for vartype in ("BINARY", "SPIN"):
        for dtype in (np.float64, np.float32, object):
            bqm = dimod.BinaryQuadraticModel(model(vartype), dtype=dtype)
            sampleset = IsinglassSampler().sample(bqm, num_reads=5, seed=1)
            assert_sampleset_energies(sampleset, bqm)
            assert_response_energies(sampleset, bqm)


@pytest.mark.parametrize("vartype", ["BINARY", "SPIN"])
@pytest.mark.parametrize("method", ["auto", "anneal", "memetic", "exact"])
def test_energies_are_the_models_and_the_best_is_optimal(vartype: str, method: str) -> None:
    rng = np.random.default_rng(2)
    linear = {f"v{k}": w for k, w in enumerate(rng.normal(size=9))}
    quadratic = {(f"v{i}", f"v{j}"): rng.normal() for i in range(9) for j in range(i)}
    bqm = dimod.BinaryQuadraticModel(linear, quadratic, -3.3, vartype)
    sampleset = IsinglassSampler().sample(bqm, method=method, seed=3)
    assert_sampleset_energies(sampleset, bqm, precision=12)
    assert sampleset.first.energy == pytest.approx(dimod.ExactSolver().sample(bqm).first.energy)
    assert sampleset.vartype is bqm.vartype
    assert list(sampleset.variables) == list(bqm.variables)
    assert sampleset.info["isinglass"]["provenance"]["method"] != "auto"
    assert sampleset.info["isinglass"]["status"] == ("optimal" if method in ("exact", "auto") else "feasible")


def test_sample_qubo_and_sample_ising() -> None:
    sampler = IsinglassSampler()
    by_qubo = sampler.sample_qubo({("a", "a"): -1, ("a", "b"): 2, ("b", "a"): 1}, num_reads=4, seed=1)
    assert by_qubo.first.sample == {"a": 1, "b": 0}
    assert by_qubo.first.energy == -1
    assert by_qubo.vartype is dimod.BINARY
    by_ising = sampler.sample_ising({"a": 0.5}, {("a", "b"): -1.0}, num_reads=4, seed=1)
    assert by_ising.first.sample == {"a": -1, "b": -1}
    assert by_ising.first.energy == -1.5
    assert by_ising.vartype is dimod.SPIN


def test_reads_are_rows_in_read_order_and_variables_without_terms_stay() -> None:
    sampleset = IsinglassSampler().sample(model(), num_reads=7, seed=1)
    assert len(sampleset) == 7
    assert set(sampleset.variables) == {"a", "b", "c", "unused"}
    direct = ig.solve(ig.Qubo.from_bqm(model()), "anneal", num_reads=7, seed=1)
    np.testing.assert_array_equal(sampleset.record.sample, direct.samples)


def test_empty_models() -> None:
    for bqm in (dimod.BinaryQuadraticModel("SPIN"), dimod.BinaryQuadraticModel({}, {}, 2.5, "BINARY")):
        sampleset = IsinglassSampler().sample(bqm, num_reads=3)
        assert_sampleset_energies(sampleset, bqm)
        assert len(sampleset) == 3


@pytest.mark.parametrize("vartype", ["BINARY", "SPIN"])
def test_start_states_come_as_dimod_takes_them(vartype: str) -> None:
    bqm = model(vartype)
    low = -1 if vartype == "SPIN" else 0
    state = {"a": low, "b": 1, "c": 1, "unused": low}
    as_rows = (np.array([[1, low, 1, low]]), ["c", "a", "b", "unused"])
    as_set = dimod.SampleSet.from_samples(state, vartype, energy=0)
    for given in (state, as_rows, as_set, as_set.change_vartype("BINARY", inplace=False)):
        kept = IsinglassSampler().sample(bqm, method="anneal", initial_states=given, num_sweeps=0, num_reads=2)
        assert [dict(sample) for sample in kept.samples(sorted_by=None)] == [state, state]
    with pytest.raises(ValueError, match=f"must be {low} or 1 for a {vartype} model, got 2 for 'b'"):
        IsinglassSampler().sample(bqm, initial_states=state | {"b": 2})
    with pytest.raises(ValueError, match="every variable of the model, got none for 'a'"):
        IsinglassSampler().sample(bqm, initial_states={"b": 1, "c": 1, "unused": 1})


def test_no_keyword_is_ignored() -> None:
    with pytest.raises(TypeError, match="no option 'num_read'; did you mean 'num_reads'"):
        IsinglassSampler().sample(model(), num_read=3)
    with pytest.raises(TypeError, match="beta_schedule_type'; did you mean 'beta_schedule'"):
        IsinglassSampler().sample(model(), method="anneal", beta_schedule_type="linear")
    known = IsinglassSampler().parameters
    assert {"num_reads", "num_sweeps", "beta_range", "initial_states", "seed", "method", "backend"} <= set(known)
    assert "exact" in IsinglassSampler().properties["methods"]
    assert "neal" in IsinglassSampler().properties["backends"]


def test_ocean_composites_and_other_back_ends_work_on_it() -> None:
    tracked = dimod.TrackingComposite(IsinglassSampler())
    assert_sampleset_energies(tracked.sample(model(), num_reads=4, seed=1), model())
    by_neal = IsinglassSampler().sample(model(), backend="neal", num_reads=4, seed=1)
    assert_sampleset_energies(by_neal, model())
    assert by_neal.info["isinglass"]["provenance"]["backend"] == "neal"


def test_other_models_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a dimod BinaryQuadraticModel, got DiscreteQuadraticModel"):
        IsinglassSampler().sample(dimod.DiscreteQuadraticModel())


def test_without_dimod_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['dimod'] = None; import isinglass.adapters.dimod"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "isinglass.adapters.dimod needs dimod: pip install 'isinglass[ocean]'" in done.stderr
