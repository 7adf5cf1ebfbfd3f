"""Conjugate gradients beside a direct solution."""

from __future__ import annotations

import pytest
import torch

from dicore_plugins.functional import conjugate_gradient


@pytest.mark.parametrize("size", [1, 2, 7])
def test_as_many_products_as_unknowns_solve_the_system(size: int) -> None:
    torch.manual_seed(size)
    root = torch.randn(size, size, dtype=torch.float64)
    matrix = root @ root.T + torch.eye(size, dtype=torch.float64)
    wanted = torch.randn(size, dtype=torch.float64)
    found = conjugate_gradient(matrix.mv, wanted, iterations=size, tolerance=0)
    torch.testing.assert_close(found, torch.linalg.solve(matrix, wanted))


def test_fewer_products_give_the_best_of_their_space() -> None:
    matrix = torch.diag(torch.tensor([1.0, 4.0, 9.0]))
    wanted = torch.ones(3)
    found = conjugate_gradient(matrix.mv, wanted, iterations=1)
    torch.testing.assert_close(found, wanted * 3 / 14)  # b'b / b'Ab along b


def test_the_unit_of_what_is_wanted_does_not_matter() -> None:
    matrix, wanted = torch.diag(torch.tensor([1.0, 4.0, 9.0])), torch.ones(3)
    for unit in (2.0**-20, 2.0**20):
        small = conjugate_gradient(matrix.mv, wanted * unit, iterations=2)
        assert torch.equal(small, conjugate_gradient(matrix.mv, wanted, iterations=2) * unit)


def test_nothing_is_asked_for_nothing() -> None:
    asked: list[torch.Tensor] = []

    def product(vector: torch.Tensor) -> torch.Tensor:
        asked.append(vector)
        return vector

    assert conjugate_gradient(product, torch.zeros(3), iterations=5).tolist() == [0, 0, 0]
    assert not asked


def test_it_ends_where_the_matrix_has_no_positive_curvature() -> None:
    matrix = torch.diag(torch.tensor([1.0, -1.0]))
    assert conjugate_gradient(matrix.mv, torch.tensor([0.0, 1.0]), iterations=5).tolist() == [0, 0]
    nothing = torch.full((2, 2), torch.nan)
    assert conjugate_gradient(nothing.mv, torch.ones(2), iterations=5).tolist() == [0, 0]
