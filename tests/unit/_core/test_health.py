from danaus._core.health import MeshHealth


def test_a_new_mesh_is_healthy():
    health: MeshHealth[str] = MeshHealth()

    assert health.healthy
    assert health.failure_of() is None
    assert health.failed_ranks() == {}


def test_a_slice_inherits_the_failures_of_its_ranks_only():
    health: MeshHealth[str] = MeshHealth()

    health.fail(3, "killed")

    assert not health.healthy
    assert health.failure_of(range(3)) is None
    assert health.failure_of((0, 3)) == "killed"
    assert health.failure_of() == "killed"


def test_the_first_failure_of_a_rank_counts():
    health: MeshHealth[str] = MeshHealth()

    assert health.fail(1, "killed")
    assert not health.fail(1, "its actor is gone")
    assert health.failed_ranks() == {1: "killed"}


def test_the_lowest_failed_rank_is_named_first():
    health: MeshHealth[str] = MeshHealth()

    health.fail(5, "later")
    health.fail(2, "lower")

    assert health.failure_of() == "lower"
    assert list(health.failed_ranks()) == [2, 5]


def test_a_stopped_mesh_refuses_every_call_with_the_first_reason():
    health: MeshHealth[str] = MeshHealth()

    health.stop("stopped by client")
    health.stop("shut down")

    assert not health.healthy
    assert health.failure_of((0,)) == "stopped by client"


def test_a_failure_explains_more_than_the_stop_that_followed():
    health: MeshHealth[str] = MeshHealth()
    health.fail(0, "killed")

    health.stop("stopped by client")

    assert health.failure_of((0, 1)) == "killed"
    assert health.failure_of((1,)) == "stopped by client"


def test_a_respawned_rank_can_be_called_and_can_fail_again():
    health: MeshHealth[str] = MeshHealth()
    health.fail(0, "killed")

    health.respawn(0)
    health.respawn(7)

    assert health.healthy
    assert health.fail(0, "killed again")
