"""Every model of the library gives what its maker states."""

import pytest

from blklab.devices import stock_models
from blklab.runners.sim.runner import simulate_rated_figures

MODELS = [model for model in stock_models.library() if not model.own]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_simulation_is_within_a_tenth_of_the_data_sheet(model: stock_models.LibraryModel) -> None:
    errors = {figure.name: figure.error for figure in simulate_rated_figures([model])[model.name]}
    assert all(abs(error) <= 0.1 for error in errors.values()), errors


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_each_model_says_where_its_figures_come_from(model: stock_models.LibraryModel) -> None:
    assert model.product and model.source
    assert model.certainty in {"measured", "data sheet", "documentation", "typical"}
    assert (model.spread > 0) == (model.certainty == "typical")
