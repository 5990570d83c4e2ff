"""Logs of other tools are recognised, and their shapes are imported if a workload can express
them."""

import json
from typing import Any

import pytest

from templates.errors import InvalidRecords
from templates.logs import Log, read
from templates.records.record import MAX_WORKLOADS
from tests.foreign_logs import (
    ANSOR,
    AUTOTVM,
    CACHE,
    LINES,
    NAMED,
    T4,
    T4_RESULT,
    TRACE,
    autotvm,
    depthwise,
    tensor,
)


def log(*records: Any) -> bytes:
    return "\n".join(
        each if isinstance(each, str) else json.dumps(each) for each in records
    ).encode()


def t4(*results: Any) -> bytes:
    return json.dumps(T4 | {"results": list(results)}, indent=1).encode()


def shape(record: Any) -> dict[str, Any]:
    [found] = read(log(record)).shapes
    return found.workload.key_fields


def refusal(content: bytes) -> str:
    with pytest.raises(InvalidRecords) as refused:
        read(content)
    return str(refused.value)


def test_own_log_is_read_as_configurations() -> None:
    found = read(log(*LINES))
    assert (found.format, found.records, len(found.configs)) == ("convtune", len(LINES), len(LINES))
    assert (found.shapes, found.refused) == ([], [])


LAYER = {
    "B": 1,
    "C": 24,
    "H": 20,
    "W": 30,
    "K": 3,
    "stride": 1,
    "dtype": "float32",
    "max_error": 1e-5,
}
ALIKE: dict[str, dict[str, Any]] = {
    "CUDA": depthwise(),
    "padding of two": depthwise(padding=[1, 1]),
    "padding of one": depthwise(padding=1, strides=1, dilation=1),
    "ARM": depthwise("depthwise_conv2d_nchw.arm_cpu", target="llvm -device=arm_cpu"),
    "Adreno": depthwise("depthwise_conv2d_nchwc.image2d", target="opencl -device=adreno"),
    "x86": depthwise("depthwise_conv2d_NCHWc.x86", words=("NCHW", "NCHW", "float32")),
}  # fmt: skip


@pytest.mark.parametrize("record", ALIKE.values(), ids=ALIKE)
def test_autotvm_log_gives_a_depthwise_layer(record: dict[str, Any]) -> None:
    assert shape(record) == LAYER


def test_autotvm_log_of_tvm_0_5_gives_a_depthwise_layer() -> None:
    """A depthwise layer in the record format of TVM 0.5 is read, too."""
    arguments = [tensor(1, 24, 20, 30), tensor(24, 1, 5, 5), [2, 2], [2, 2], "float32"]
    task = ["topi_nn_depthwise_conv2d_nchw", arguments, {}, [], {"t": "direct"}]
    record = {"r": [[0.014], 0, 0.5, 1533068037.1], "v": 0.1, "i": ["llvm -model=pynq", *task]}
    assert shape(record) == LAYER | {"K": 5, "stride": 2}


@pytest.mark.parametrize(
    ("padding", "mode"),
    [
        (6, "full"),
        ([6], "full"),
        ([0, 0], "valid"),
        ([3, 3], "same"),
        (3, "same"),
        ([6, 0], "causal"),
    ],
)
def test_autotvm_log_gives_a_signal_with_its_mode(padding: Any, mode: str) -> None:
    tensors = tensor(1, 1, 500, dtype="float16"), tensor(1, 1, 7, dtype="float16")
    found = shape(autotvm("conv1d_ncw.cuda", *tensors, 1, padding, 1, "float16"))
    wanted = {"M": 500, "N": 7, "mode": mode, "kind": "correlate", "dtype": "float16"}
    assert found == wanted | {"max_error": 1e-3}


def test_even_kernel_has_mode_same_only_if_padded_as_in_numpy() -> None:
    tensors = tensor(1, 1, 500), tensor(1, 1, 8)
    found = shape(autotvm("conv1d_ncw.x86", *tensors, [1], [4, 3], [1], "float32"))
    assert found["mode"] == "same"
    other = shape(autotvm("conv1d_ncw.x86", *tensors, [1], [3, 4], [1], "float32"))
    assert (other["padding"], "mode" in other) == ([3, 4], False)


def test_autotvm_log_gives_channels_strides_and_dilations_of_signals() -> None:
    tensors = tensor(2, 8, 500), tensor(16, 8, 7)
    found = shape(autotvm("conv1d_ncw.cuda", *tensors, [2], [3], [4], "float32"))
    expected = {"B": 2, "C": 8, "F": 16, "groups": 1, "stride": 2, "dilation": 4, "padding": [3, 3]}
    assert {name: found[name] for name in expected} == expected


def test_own_export_in_autotvms_format_is_read() -> None:
    assert shape(AUTOTVM)["M"] == 100


def test_a_shape_is_ordered_once_for_each_kind_of_device() -> None:
    on = ["cuda", "cuda -model=v100", "llvm -mcpu=core-avx2", "vulkan", "opencl -device=mali"]
    found = read(log("# pre-tuned", "", *(depthwise(target=target) for target in on)))
    assert [each.target for each in found.shapes] == ["cuda", "cpu", "auto"]
    assert found.records == len(on)


def test_a_log_may_begin_with_a_long_comment() -> None:
    comment = "# pre-tuned by TVM\n\n  # for CUDA\n" * 10_000
    found = read(comment.encode() + log(depthwise()))
    assert (found.format, len(found.shapes)) == ("AutoTVM's log", 1)


NOT_EXPRESSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "another operator": (autotvm("conv2d_nchw.cuda"), "'conv2d_nchw.cuda' is a task of another"),
    "transposed": (autotvm("conv1d_transpose_ncw.cuda"), "is a task of another operator"),
    "NHWC": (depthwise("depthwise_conv2d_nhwc.generic"), "a layout other than"),
    "NWC": (autotvm("conv1d_nwc.cuda"), "a layout other than"),
    "blocked": (
        autotvm("depthwise_conv2d_NCHWc.x86", tensor(1, 3, 20, 30, 8), tensor(3, 1, 3, 3, 1, 8),
                [1, 1], [1, 1, 1, 1], [1, 1], "NCHW8c", "NCHW8c", "float32"),
        "blocked channels",
    ),
    "SAME": (depthwise(padding="SAME"), "padding is 'SAME', but must be whole numbers"),
    "dilated": (depthwise(dilation=[1, 2]), "dilation is 1 and 2"),
    "strides": (depthwise(strides=[1, 2]), "stride is 1 and 2"),
    "a stride of 5": (depthwise(strides=[5, 5]), "depthwise_conv2d: stride"),
    "a large kernel": (depthwise(weight=(24, 1, 65, 3)), "depthwise_conv2d: KH"),
    "int8": (depthwise(words=("int32",)), "dtypes are ['float32', 'float32', 'int32']"),
    "channels": (depthwise(weight=(12, 1, 3, 3)), "weight has 12 channels, but its input 24"),
    "many channels": (
        autotvm("conv1d_ncw.cuda", tensor(1, 8, 50), tensor(8, 4, 3), 1, 1, 1, "float32"),
        "sums 4 of 8 channels",
    ),
    "text": (depthwise(strides=["1", 1]), "but must be whole numbers"),
    "no arguments": (autotvm("depthwise_conv2d_nchw.cuda"), "arguments are not TOPI's"),
}  # fmt: skip


@pytest.mark.parametrize(("record", "reason"), NOT_EXPRESSIBLE.values(), ids=NOT_EXPRESSIBLE)
def test_log_names_the_reason_why_a_shape_can_not_be_expressed(
    record: dict[str, Any], reason: str
) -> None:
    found = read(log(record, depthwise(), record))
    assert len(found.shapes) == 1
    [refused] = found.refused
    assert reason in refused.reason
    assert (refused.records, refused.line) == (2, 1)
    alone = refusal(log(record))
    assert "is AutoTVM's log, from which only shapes of depthwise_conv2d_nchw" in alone
    assert reason in alone and "nothing was imported" in alone


def test_t4_results_are_imported_only_if_they_name_a_workload() -> None:
    conv2d = T4_RESULT | NAMED | {"operator": "conv2d"}
    short = T4_RESULT | NAMED | {"workload": {"M": 3, "N": 7, "mode": "valid"}}
    found = read(t4(T4_RESULT | NAMED, T4_RESULT | NAMED, T4_RESULT, conv2d, short, 7))
    assert (found.format, found.records) == ("Kernel Tuner's T4 results", 6)
    [only] = found.shapes
    assert (only.workload.model_dump()["M"], only.target) == (100, "cpu")
    reasons = [each.reason for each in found.refused]
    for reason in (
        "names no operator",
        "'conv2d' is not an operator",
        "the kernel spans 7 samples",
        "is not a JSON object",
    ):
        assert sum(reason in each for each in reasons) == 1


@pytest.mark.parametrize(
    ("content", "name", "way_out"),
    [
        (t4(T4_RESULT), "Kernel Tuner's T4 results", "names no operator and workload"),
        (t4(T4_RESULT)[:-20], "Kernel Tuner's T4 results", "is not a complete"),
        (json.dumps(CACHE, indent="").encode(), "Kernel Tuner's cache", "order the shape instead"),
        (json.dumps(CACHE)[:-2].encode(), "Kernel Tuner's cache", "order the shape instead"),
        (json.dumps(ANSOR).encode(), "TVM's auto-scheduler", "order the shape instead"),
        (TRACE, "MetaSchedule's database", "each also names its template"),
        (b'["17", "AAAA"]\n', "MetaSchedule's database", "each also names its template"),
    ],
    ids=["T4", "half a T4", "cache", "open cache", "auto-scheduler", "records", "workloads"],
)
def test_known_format_without_shapes_is_refused_by_its_name(
    content: bytes, name: str, way_out: str
) -> None:
    """A log of a known format without any shape is refused with the format's name and the way
    out."""
    said = refusal(content)
    assert f"is {name}" in said or f"of {name}" in said
    assert way_out in said


def test_foreign_log_with_too_many_shapes_is_refused() -> None:
    def lines(count: int) -> bytes:
        return log(*(AUTOTVM | {"input": ["cuda", "conv1d/x", [["M", 9 + n], ["N", 7]], {}]}
                     for n in range(count)))  # fmt: skip

    found: Log = read(lines(MAX_WORKLOADS))
    assert len(found.shapes) == MAX_WORKLOADS
    assert f"at most {MAX_WORKLOADS} shapes" in refusal(lines(MAX_WORKLOADS + 1))


def test_reasons_beyond_the_limit_are_counted_as_other_reasons() -> None:
    others = [autotvm(f"task_{n}.cuda") for n in range(30)]
    found = read(log(*others, depthwise()))
    assert sum(each.records for each in found.refused) == 30
    assert len(found.refused) == 21
    assert found.refused[0].reason == "for other reasons"
