from collections.abc import Generator
from typing import Any

import pytest

from danaus._wire.codec import copy_parts, dumps, loads, set_threshold, threshold

pytestmark = pytest.mark.needs_torch


@pytest.fixture
def lib() -> Any:
    """The torch module, which only these tests import."""
    import torch

    return torch


@pytest.fixture(autouse=True)
def small_threshold() -> Generator[None]:
    before = threshold()
    set_threshold(16)
    yield
    set_threshold(before)


def through(value: object) -> Any:
    return loads(copy_parts(dumps(value)))


TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("name", TYPES)
def test_tensors_of_every_type_come_back(lib: Any, name: str):
    tensor = lib.arange(24).reshape(2, 3, 4).to(getattr(lib, name))

    copy = through(tensor)

    assert copy.dtype == tensor.dtype
    assert lib.equal(copy, tensor)


def test_a_tensor_is_not_copied_by_its_sender(lib: Any):
    tensor = lib.arange(100)

    pickled, data = dumps({"tensor": tensor})

    assert len(bytes(pickled)) < 400
    assert lib.frombuffer(data, dtype=lib.int64).data_ptr() == tensor.data_ptr()


def test_a_tensor_lies_in_the_received_memory_and_can_be_written(lib: Any):
    pickled, data = dumps(lib.arange(100))
    received = bytearray(data)

    tensor = loads([pickled, received])
    tensor[0] = 7

    assert received[0] == 7


@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.arange(100).reshape(10, 10).T,
        lambda lib: lib.arange(100)[::3],
        lambda lib: lib.zeros(0, 4),
        lambda lib: lib.tensor(2.5),
        lambda lib: lib.tensor([1 + 2j] * 20).conj(),
        lambda lib: lib.eye(20).to_sparse(),
        lambda lib: lib.ones(5, 5).expand(4, 5, 5),
    ],
    ids=["transposed", "strided", "empty", "scalar", "conjugate", "sparse", "expanded"],
)
def test_tensors_of_every_layout_come_back(lib: Any, make: Any):
    tensor = make(lib)

    copy = through(tensor)

    assert copy.shape == tensor.shape
    assert copy.layout == tensor.layout
    assert lib.equal(copy.to_dense(), tensor.to_dense())


def test_a_tensor_keeps_whether_it_wants_gradients(lib: Any):
    wanting, plain = through([lib.ones(20, requires_grad=True), lib.ones(20)])

    assert (wanting.requires_grad, plain.requires_grad) == (True, False)


def test_the_result_of_a_computation_travels_without_its_graph(lib: Any):
    copy = through(lib.ones(20, requires_grad=True) * 2)

    assert copy.requires_grad
    assert copy.is_leaf


def test_a_parameter_stays_a_parameter(lib: Any):
    frozen = lib.nn.Parameter(lib.ones(20), requires_grad=False)

    copy = through([lib.nn.Parameter(lib.ones(20)), frozen])

    assert [type(parameter) for parameter in copy] == [lib.nn.Parameter] * 2
    assert [parameter.requires_grad for parameter in copy] == [True, False]


def test_a_module_comes_back_with_its_weights(lib: Any):
    layer = lib.nn.Linear(8, 8)

    copy = through(layer)

    assert lib.equal(copy(lib.ones(8)), layer(lib.ones(8)))


def test_a_tensor_beside_what_only_cloudpickle_can_pickle_comes_back(lib: Any):
    tensor, call = through([lib.arange(100), lambda: 3])

    assert lib.equal(tensor, lib.arange(100))
    assert call() == 3


def test_two_views_of_one_tensor_come_back_equal(lib: Any):
    tensor = lib.arange(100)

    first, second = through([tensor[:50], tensor[50:]])

    assert lib.equal(lib.cat([first, second]), tensor)
