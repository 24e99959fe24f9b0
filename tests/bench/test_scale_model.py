import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scale_model import Costs, Level, fit, levels, main, predict, ratios
from benchmarks.simulated_hosts import ROOT, SimulatedHosts


def test_the_shape_is_that_of_the_trees_that_are_planned():
    assert levels(7, 2) == [Level(0, 1, 2), Level(1, 2, 2), Level(2, 4, 1), Level(3, 1, 0)]
    assert levels(5, 5) == [Level(0, 1, 5), Level(1, 5, 0)]


@given(st.integers(1, 300), st.integers(2, 20))
def test_the_model_counts_the_messages_of_the_simulation(hosts: int, fanout: int):
    predicted = predict(hosts, fanout)
    simulated = SimulatedHosts(hosts, fanout).cast()

    assert sum(level.hosts for level in levels(hosts, fanout)) == hosts + 1
    assert predicted.depth == simulated.depth
    # In the simulation everything is acknowledged, and apart from the replies.
    children = min(hosts, fanout)
    assert simulated.sent[ROOT] + simulated.received[ROOT] == 4 * children
    assert predicted.root_frames == (2 if fanout >= hosts else 3) * children


def test_what_a_cast_costs_its_sender_does_not_grow_with_the_hosts():
    few, many = predict(1000, 16), predict(100_000, 16)

    assert few.root_broadcast_s == many.root_broadcast_s
    assert few.root_frames == many.root_frames
    assert many.down_s < 2 * few.down_s


def figure(hosts: int, fanout: int, costs: Costs) -> dict[str, object]:
    broadcast = {
        "frames_sent": float(fanout),
        "bytes_sent": 150.0 * fanout,
        "processor_s": fanout * costs.frame_s,
    }
    call = {
        "frames_sent": 2.0 * fanout,
        "frames_received": 1.0 * fanout,
        "processor_s": costs.call_s + 3 * fanout * costs.frame_s + hosts * costs.reply_s,
    }
    return {"hosts": hosts, "fanout": fanout, "broadcast": broadcast, "call": call}


def test_costs_are_found_in_what_was_measured():
    costs = Costs(frame_s=5e-5, call_s=8e-4, reply_s=7e-6)
    figures = [figure(h, f, costs) for h in (64, 128, 256) for f in (8, 16)]

    found = fit(figures)

    assert found.frame_s == pytest.approx(5e-5)
    assert found.call_s == pytest.approx(8e-4)
    assert found.reply_s == pytest.approx(7e-6)
    assert found.head_bytes == 150


def test_the_ratio_is_how_far_the_model_is_above_what_was_measured():
    costs = Costs()
    p = predict(256, 16, costs=costs)
    measured = {
        "hosts": 256,
        "fanout": 16,
        "broadcast": {"processor_s": p.root_broadcast_s / 2},
        "call": {
            "frames_sent": p.root_frames * 2.0,
            "frames_received": p.root_frames * 2.0,
            "bytes_sent": p.root_bytes / 2,
            "bytes_received": p.root_bytes / 2,
            "processor_s": p.root_call_s * 2,
            "wall_s": p.call_s * 10,
        },
    }

    found = ratios(measured, costs)

    assert found == pytest.approx(
        {"frames": 0.25, "bytes": 1.0, "broadcast": 2.0, "call": 0.5, "all": 0.1}
    )


def test_the_table_of_levels_adds_up_to_the_time_of_the_last_host(
    capsys: pytest.CaptureFixture[str],
):
    main(["--hosts", "1000", "--fanouts", "16", "--levels"])

    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    of_levels = [row for row in rows if row[0] == "| 1000" and len(row) == 7]
    assert [int(row[2]) for row in of_levels] == [0, 1, 2, 3]
    assert sum(int(row[3]) for row in of_levels) == 1001
    assert of_levels[-1][-1] == f"{predict(1000, 16).down_s * 1e3:,.2f} ms |"
