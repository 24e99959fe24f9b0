import pytest

from danaus.spmd import Ranks, host_mesh_from_store, rank_by_launcher

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "2",
}
HYDRA = {"PMI_RANK": "1", "MPI_LOCALRANKID": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


class NoStore:
    """Fails whoever uses it."""

    def set(self, key: str, value: str) -> None:
        raise AssertionError(key)

    def get(self, key: str) -> bytes:
        raise AssertionError(key)

    def wait(self, keys: list[str]) -> None:
        raise AssertionError(keys)


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        (TORCHRUN, Ranks(5, 1, 8, 4)),
        (OPEN_MPI, Ranks(2, 0, 4, 2)),
        (HYDRA, Ranks(1, 1, 2, 2)),
        (SLURM, Ranks(3, 1, 4, 2)),
        ({**SLURM, **OPEN_MPI, **TORCHRUN}, Ranks(5, 1, 8, 4)),
        ({**SLURM, **OPEN_MPI}, Ranks(2, 0, 4, 2)),
    ],
)
def test_each_launcher_is_understood_and_the_innermost_counts(
    variables: dict[str, str], ranks: Ranks
):
    assert Ranks.of(environment=variables) == ranks
    assert rank_by_launcher(variables) == ranks.rank


def test_hosts_are_counted_by_their_processes():
    ranks = Ranks(5, 1, 8, 4)

    assert (ranks.host, ranks.hosts) == (1, 2)


def test_without_a_launcher_there_is_no_rank():
    assert rank_by_launcher({}) is None


@pytest.mark.parametrize("missing", list(TORCHRUN))
def test_a_variable_that_is_missing_is_named(missing: str):
    variables = {name: value for name, value in TORCHRUN.items() if name != missing}

    with pytest.raises(RuntimeError, match=f"{missing} is not set: start this by torchrun"):
        Ranks.of(environment=variables)


def test_what_is_given_needs_no_environment():
    assert Ranks.of(3, 1, 4, 2, environment={}) == Ranks(3, 1, 4, 2)


def test_machines_with_different_numbers_of_processes_are_refused():
    with pytest.raises(ValueError, match="divisible"):
        Ranks(0, 0, 3, 2)
    with pytest.raises(ValueError, match="differs by machine"):
        Ranks.of(environment={**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2,1"})


def test_ranks_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="cannot be"):
        Ranks(4, 0, 4, 2)
    with pytest.raises(ValueError, match="cannot be"):
        Ranks(3, 2, 4, 2)


def test_a_rank_that_is_not_the_first_of_its_host_does_nothing():
    made = host_mesh_from_store(NoStore(), rank=3, local_rank=1, world_size=4, local_world_size=2)

    assert made is None


def test_an_unknown_transport_is_refused():
    with pytest.raises(ValueError, match="unsupported transport 'pigeon'"):
        host_mesh_from_store(NoStore(), transport="pigeon")
