"""A batch norm that a layer has taken in: whatever becomes of its tensors, the model computes with
their present values, in eager mode and in graphs."""

import copy
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, scramble, usual  # noqa: E402
from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402
from torch.nn.utils import parametrize, prune  # noqa: E402

from tuner.torch import capture, optimize_  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture
def pair(source: Local, x: Any) -> tuple[Any, Any]:
    """Return a model as PyTorch computes it, and an optimised copy."""
    plain = Block(usual).eval()
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source)
    return plain, tuned


@pytest.fixture(autouse=True)
def compiled_anew() -> None:
    torch.compiler.reset()


def in_graph(call: Any, backend: str) -> Any:
    return torch.compile(call, backend=backend, fullgraph=True)


def other_values(model: Any) -> dict[str, Any]:
    return {
        name: 2 * value + 0.5
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_functional_call_uses_the_given_values_in_a_graph(pair: Any, x: Any, backend: str) -> None:
    plain, tuned = pair
    values = other_values(plain)
    with torch.no_grad():
        expected = functional_call(plain, values, (x,))
        assert close(functional_call(tuned, values, (x,)), expected)
        called = in_graph(lambda given, x: functional_call(tuned, given, (x,)), backend)
        assert close(called(values, x), expected)
        assert close(called(plain.state_dict(), x), plain(x))


def test_graph_of_a_vmapped_ensemble_equals_pytorchs(pair: Any, x: Any) -> None:
    plain, tuned = pair
    several = {name: torch.stack([value, value + 1]) for name, value in other_values(plain).items()}

    def ensemble(model: Any) -> Any:
        return torch.vmap(lambda values: functional_call(model, values, (x,)))

    with torch.no_grad():
        found = in_graph(ensemble(tuned), "aot_eager")(several)
        assert close(found, ensemble(plain)(several))


@pytest.mark.parametrize("backend", BACKENDS)
def test_graph_uses_values_that_it_wrote_to_the_norm(pair: Any, x: Any, backend: str) -> None:
    plain, tuned = pair

    def writes(model: Any, x: Any) -> Any:
        first = model(x)
        model.bn.bias.add_(1.0)
        second = model(x)
        model.bn.running_mean.mul_(0.5)
        return first, second, model(x)

    with torch.no_grad():
        called = in_graph(writes, backend)
        for _ in range(2):
            for found, expected in zip(called(tuned, x), writes(plain, x), strict=True):
                assert close(found, expected)
    assert close(outputs(tuned, x), outputs(plain, x))


def test_graph_of_the_model_calls_the_kernel_with_present_values(pair: Any, x: Any) -> None:
    plain, tuned = pair
    compiled = in_graph(tuned, "aot_eager")
    for _ in range(2):
        tuned.conv.used = None
        assert close(outputs(compiled, x), outputs(plain, x))
        assert tuned.conv.used == "tuned"
        for model in (plain, tuned):
            scramble(model)
            with torch.no_grad():
                model.bn.bias.add_(1.0)


def test_graph_without_module_guards_uses_present_values(pair: Any, x: Any) -> None:
    plain, tuned = pair
    options = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    compiled = torch.compile(tuned, backend="aot_eager", fullgraph=True, options=options)
    with torch.no_grad():
        for _ in range(3):
            tuned.conv.used = None
            assert close(compiled(x), plain(x))
            assert tuned.conv.used == "tuned"
            for model in pair:
                model.bn.bias.add_(1.0)


def test_values_loaded_into_inference_mode_tensors_are_used(source: Local, x: Any) -> None:
    """PyTorch does not record writes to tensors that were made in inference mode."""
    with torch.inference_mode():
        plain = Block(usual).eval()
        tuned = copy.deepcopy(plain)
        optimize_(tuned, x, source=source)
        values = other_values(plain)
        for model in (plain, tuned):
            model.load_state_dict(values, strict=False)
        assert close(tuned(x), plain(x))
    assert tuned.conv.used == "tuned"


def test_changed_weight_is_used_if_a_buffer_was_made_in_inference_mode(
    source: Local, x: Any
) -> None:
    plain = Block(usual).eval()
    with torch.inference_mode():
        plain.bn.running_mean = torch.ones(6)
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source)
    assert close(outputs(tuned, x), outputs(plain, x))
    with torch.no_grad():
        for model in (plain, tuned):
            model.conv.weight.mul_(5.0)
    assert close(outputs(tuned, x), outputs(plain, x))


def folded(model: Any) -> tuple[Any, Any]:
    return model.conv.norm.folded(model.conv.weight, model.conv.bias)  # type: ignore[no-any-return]


def test_new_values_are_folded_into_the_same_tensors(pair: Any, x: Any) -> None:
    """A CUDA graph reads these tensors, so they must neither move nor get other models' values."""
    plain, tuned = pair
    with torch.no_grad():
        tuned(x)
        before, values = folded(tuned), [each.clone() for each in folded(tuned)]
        other = other_values(plain)
        assert close(functional_call(tuned, other, (x,)), functional_call(plain, other, (x,)))
        for mine, kept, value in zip(folded(tuned), before, values, strict=True):
            assert mine is kept
            assert torch.equal(kept, value)
        for model in pair:
            model.bn.bias.add_(1.0)
        assert close(tuned(x), plain(x))
        assert all(mine is kept for mine, kept in zip(folded(tuned), before, strict=True))
        for model in pair:
            model.double().float()
        assert close(tuned(x), plain(x))
        assert not any(mine is kept for mine, kept in zip(folded(tuned), before, strict=True))


def test_fold_is_dropped_once_its_tensors_are_gone(pair: Any, x: Any) -> None:
    plain, tuned = pair
    with torch.no_grad():
        for _ in range(3):
            other = {name: nn.Parameter(value) for name, value in other_values(plain).items()}
            functional_call(tuned, other, (x,))
            tuned(x)
        del other
        tuned.bn.bias.add_(1.0)
        tuned(x)
    assert len(tuned.conv.norm.folds) == 1


def test_weight_viewed_at_the_same_address_is_folded_anew(pair: Any, x: Any) -> None:
    plain, tuned = pair
    with torch.no_grad():
        tuned(x)
    for model in pair:
        model.conv.weight = nn.Parameter(model.conv.weight.detach().mT)
    assert close(outputs(tuned, x), outputs(plain, x))


def test_fold_of_a_computed_weight_is_not_kept(pair: Any, x: Any) -> None:
    plain, tuned = pair
    kept = folded(tuned)
    for model in pair:
        prune.l1_unstructured(model.conv, "weight", 0.5)
    assert close(outputs(tuned, x), outputs(plain, x))
    assert tuned.conv.used == "tuned"
    assert [each.values for each in tuned.conv.norm.folds] in ([], [kept])


def test_value_written_to_shared_memory_by_another_process_is_used(pair: Any, x: Any) -> None:
    plain, tuned = pair
    for model in pair:
        model.share_memory()
    assert close(outputs(tuned, x), outputs(plain, x))
    for model in pair:
        # as another process does: this process's tensors keep their versions
        model.bn.bias.detach().numpy()[:] += 1.0
    assert close(outputs(tuned, x), outputs(plain, x))


def test_load_state_dict_makes_an_unrecorded_write_count(pair: Any, x: Any) -> None:
    plain, tuned = pair
    assert close(outputs(tuned, x), outputs(plain, x))
    for model in pair:
        model.bn.bias.data += 1.0
        model.load_state_dict(model.state_dict())
    assert close(outputs(tuned, x), outputs(plain, x))


def test_threads_fold_into_the_same_tensors(pair: Any, x: Any) -> None:
    plain, tuned = pair
    for model in pair:
        model.double().float()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: outputs(tuned, x), range(8)))
    assert all(close(y, outputs(plain, x)) for y in found)
    assert len(tuned.conv.norm.folds) == 1


class Squared(nn.Module):
    def forward(self, weight: Any) -> Any:
        return weight * weight


def test_parametrised_norm_is_folded_with_present_values(pair: Any, x: Any) -> None:
    plain, tuned = pair
    for model in pair:
        parametrize.register_parametrization(model.bn, "weight", Squared())
    assert close(outputs(tuned, x), outputs(plain, x))
    with torch.no_grad():
        for model in pair:
            model.bn.parametrizations.weight.original.add_(1.0)
    assert close(outputs(tuned, x), outputs(plain, x))


def test_norm_parameter_replaced_by_a_tensor_is_used(pair: Any, x: Any) -> None:
    plain, tuned = pair
    for model in pair:
        del model.bn.weight
        model.bn.weight = torch.full((6,), 3.0)
    assert close(outputs(tuned, x), outputs(plain, x))


@pytest.mark.parametrize("shape", [(8, 8), (2, 8, 8)], ids=["unbatched", "batched"])
def test_norm_over_the_samples_of_an_unbatched_signal_is_not_folded(shape: tuple[int, ...]) -> None:
    """BatchNorm1d takes a matrix's first axis for the batch, and a convolution for channels."""
    model = nn.Sequential(nn.Conv1d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm1d(8))
    [layer] = capture(model.eval(), torch.randn(shape))
    assert layer.workload is not None
    assert layer.workload.bias == (len(shape) == 3)


def test_new_statistics_are_used_if_the_norm_counts_no_batches(source: Local, x: Any) -> None:
    """PyTorch changes running means but not their versions. Other norms show it by counted
    batches."""
    plain = Block(usual).eval()
    plain.bn.num_batches_tracked = None
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source)
    for _ in range(2):
        assert close(outputs(tuned, x), outputs(plain, x))
        for model in (plain, tuned):
            outputs(model.train(), 3 * x + 1)
            model.eval()


def test_residual_is_added_after_the_batch_norm_in_training(pair: tuple[Any, Any], x: Any) -> None:
    plain, tuned = pair
    residual = torch.randn_like(x)
    for model in pair:
        model.train()
    expected = nn.functional.relu6(plain.bn(plain.conv(x)) + residual)
    assert close(tuned.conv(x, residual), expected)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Have PyTorch use one thread, because its OpenMP threads do not survive a fork."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.usefixtures("one_thread")
def test_child_forked_while_a_thread_folds_can_fold(pair: tuple[Any, Any], x: Any) -> None:
    _, tuned = pair
    stop = Event()

    def fold() -> None:
        with torch.no_grad():
            tuned.bn.weight.add_(0.0)  # its value may have changed
            tuned(x)

    def fold_again() -> None:
        while not stop.is_set():
            fold()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(fold_again)
        try:
            for _ in range(5):
                if (child := os.fork()) == 0:
                    signal.alarm(20)  # ends the child if it waits for the thread
                    fold()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
